package lockgen_test

import (
	"bytes"
	"context"
	"html/template"
	"math/rand"
	"net/url"
	texts "text/template"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/basic"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/embedding"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/lists"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/paths"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/policies"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/results"
)

// What the decorators of the golden packages call.
type (
	fakeOrders struct {
		basic.Orders // nil

		w *work
	}
	fakeDocs struct {
		embedding.Docs // nil

		w *work
	}
	fakeJobs struct {
		policies.Jobs // nil

		w *work
	}
	fakeRepo    struct{ w *work }
	fakeNamed   struct{ w *work }
	fakeLists   struct{ w *work }
	fakeParams  struct{ w *work }
	fakePaths   struct{ w *work }
	fakeForeign struct{ w *work }
	fakeResults struct{ w *work }
	fakeTags    struct{}
)

func (f fakeOrders) Pay(ctx context.Context, _ basic.Order) (basic.Receipt, error) {
	return basic.Receipt{Number: 42}, f.w.run(ctx)
}
func (f fakeOrders) Merge(ctx context.Context, _, _ string) error { return f.w.run(ctx) }
func (f fakeOrders) Store(ctx context.Context, _ *basic.Order) (int, string, error) {
	return 7, "seven", f.w.run(ctx)
}
func (f fakeOrders) Count(ctx context.Context) (int, error) { return 3, f.w.run(ctx) }
func (f fakeOrders) Len() int                               { return 3 }
func (f fakeOrders) Reset(context.Context, ...int)          {}

func (f fakeDocs) Read(ctx context.Context, _ string) (string, error)           { return "", f.w.run(ctx) }
func (f fakeDocs) Write(ctx context.Context, _ embedding.DocID, _ string) error { return f.w.run(ctx) }
func (f fakeDocs) Copy(ctx context.Context, _, _ embedding.DocID) error         { return f.w.run(ctx) }
func (f fakeJobs) Base(ctx context.Context, _ string) error                     { return f.w.run(ctx) }
func (f fakeJobs) Back(ctx context.Context, _ string) error                     { return f.w.run(ctx) }
func (f fakeRepo) Save(ctx context.Context, _ string, _ int) error              { return f.w.run(ctx) }
func (f fakeRepo) Load(ctx context.Context, _ ...string) (map[string]int, error) {
	return nil, f.w.run(ctx)
}

func (f fakeNamed) Rename(ctx context.Context, name embedding.DocID, _ int) (embedding.DocID, error) {
	return name, f.w.run(ctx)
}

func (f fakeLists) Variadic(ctx context.Context, _ ...lists.SKU) error    { return f.w.run(ctx) }
func (f fakeLists) Slice(ctx context.Context, _ string, _ []uint16) error { return f.w.run(ctx) }
func (f fakeLists) Field(ctx context.Context, _ *lists.Order) error       { return f.w.run(ctx) }
func (f fakeLists) Method(ctx context.Context, _ *lists.Order) error      { return f.w.run(ctx) }
func (f fakeLists) Function(ctx context.Context, _ int) error             { return f.w.run(ctx) }
func (f fakeLists) Pointers(ctx context.Context, _ [2]*string) error      { return f.w.run(ctx) }
func (f fakeLists) Two(ctx context.Context, _, _ []string) error          { return f.w.run(ctx) }
func (f fakeParams) One(ctx context.Context, _ string) error              { return f.w.run(ctx) }
func (f fakeParams) Method(ctx context.Context, _ int) error              { return f.w.run(ctx) }
func (f fakeParams) Named(ctx context.Context) error                      { return f.w.run(ctx) }
func (f fakePaths) Embedded(ctx context.Context, _ paths.Order) error     { return f.w.run(ctx) }
func (f fakePaths) Deep(ctx context.Context, _ *paths.Order) error        { return f.w.run(ctx) }
func (f fakePaths) Promoted(ctx context.Context, _ *paths.Order) error    { return f.w.run(ctx) }
func (f fakePaths) Interface(ctx context.Context, _ *paths.Order) error   { return f.w.run(ctx) }
func (f fakePaths) Getter(ctx context.Context, _ *paths.Order) error      { return f.w.run(ctx) }
func (f fakePaths) Fails(ctx context.Context, _ *paths.Order) error       { return f.w.run(ctx) }
func (f fakePaths) Function(ctx context.Context, _ *paths.Order) error    { return f.w.run(ctx) }
func (f fakePaths) Itself(ctx context.Context, _ paths.Getter) error      { return f.w.run(ctx) }
func (f fakePaths) Skips(ctx context.Context, _ string) error             { return f.w.run(ctx) }
func (f fakePaths) Plain(ctx context.Context) error                       { return f.w.run(ctx) }
func (f fakeForeign) Foreign(ctx context.Context, _ basic.Order) error    { return f.w.run(ctx) }
func (fakeTags) Do(context.Context, string) error                         { return nil }
func (f fakeParams) Several(ctx context.Context, _ string, _ *string, _ string) error {
	return f.w.run(ctx)
}

func (f fakeForeign) Alias(ctx context.Context, _ foreign.Order) (*basic.Receipt, error) {
	return nil, f.w.run(ctx)
}

func (f fakeForeign) Templates(ctx context.Context, _ *url.URL, _ template.HTML, _ *texts.Template, _ rand.Source) (redis.Z, error) {
	return redis.Z{}, f.w.run(ctx)
}

func (f fakeResults) One(ctx context.Context, _ int) error { return f.w.run(ctx) }
func (f fakeResults) Two(ctx context.Context, _ int) (bytes.Buffer, error) {
	return bytes.Buffer{}, f.w.run(ctx)
}
func (f fakeResults) Page(ctx context.Context, _ int) (*results.Page, error) {
	return nil, f.w.run(ctx)
}

func (f fakeResults) Five(ctx context.Context, _ int) ([]string, map[string]*results.Page, time.Time, any, error) {
	return []string{"a"}, map[string]*results.Page{"b": nil}, time.Unix(1, 0), "d", f.w.run(ctx)
}

func (f fakeResults) Named(ctx context.Context, _ int) (int, string, error) {
	return 0, "", f.w.run(ctx)
}

type fakeCollisions struct {
	error

	w *work
}

func (f fakeCollisions) Pay(ctx context.Context, _ string) error  { return f.w.run(ctx) }
func (f fakeCollisions) Line(ctx context.Context, _ string) error { return f.w.run(ctx) }
func (f fakeCollisions) Close(ctx context.Context) error          { return f.w.run(ctx) }
