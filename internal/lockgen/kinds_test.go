package lockgen_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/kinds"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Of a value of every kind, generated code makes the key that keyfunc makes of the same
// Go value in a template that reads alike.
func TestGeneratedKeysAreThoseOfKeyfunc(t *testing.T) {
	const parts = 4 // at once
	rounds := 3_000 // each run draws others
	if testing.Short() {
		rounds = 1_000
	}
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			compareKeys(t, rounds/parts)
		})
	}
}

func compareKeys(t *testing.T, rounds int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := new(work)
	decorated := reflect.ValueOf(kinds.LockKinds(fakeKinds{w}, doortest.Instant(t)))
	templates := templatesOf(t, "testdata/golden/kinds/kinds.go")
	if len(templates) != decorated.NumMethod() {
		t.Fatalf("%d templates for %d methods", len(templates), decorated.NumMethod())
	}
	had := make(map[string]int)
	for range rounds {
		values := make(map[reflect.Type]reflect.Value) // of all methods in this round
		for method, key := range templates {
			call := decorated.MethodByName(method)
			in := []reflect.Value{reflect.ValueOf(t.Context())}
			for i := 1; i < call.Type().NumIn(); i++ {
				of := call.Type().In(i)
				if _, made := values[of]; !made {
					values[of] = random(r, of)
				}
				in = append(in, values[of])
			}
			want, wrong := key(arguments(in[1:]))
			w.key = ""
			err, _ := reflect.TypeAssert[error](call.Call(in)[0])
			if w.key != want || wrong != nil && !sameReason(err, wrong) {
				t.Fatalf("%s of %+v:\n got %q, %v\nwant %q, %v", method, in[1:], w.key, err, want, wrong)
			}
			if wrong == nil {
				had[method]++
			}
		}
	}
	for method := range templates {
		if had[method] < rounds/20 {
			t.Errorf("only %d calls of %s had a key", had[method], method)
		}
	}
}

// sameReason reports whether a call was refused for the reason that keyfunc has.
func sameReason(a, b error) bool {
	return errors.Is(a, lockmw.ErrInvalidKey) && errors.Is(a, keyfunc.ErrMissing) == errors.Is(b, keyfunc.ErrMissing) && errors.Is(a, keyfunc.ErrInvalidValue) == errors.Is(b, keyfunc.ErrInvalidValue)
}

// templatesOf reads the directives of a file without lockgen: as keyfunc templates in
// which every placeholder is a {value.…}.
func templatesOf(t *testing.T, file string) map[string]keyfunc.Func {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	templates := make(map[string]keyfunc.Func)
	for _, m := range regexp.MustCompile(`//lockmw:lock (\S+)\n\t(\w+)\(`).FindAllStringSubmatch(string(source), -1) {
		templates[m[2]] = keyfunc.MustParse(regexp.MustCompile(`\{([a-z])`).ReplaceAllString(m[1], "{value.$1"))
	}
	return templates
}

// arguments is a Request whose values are fields of a call's arguments: a of the only
// one, or s, n and p of three.
type arguments []reflect.Value

func (a arguments) Value(path string) (any, bool) {
	root, field, _ := strings.Cut(path, ".")
	v := a[max(strings.Index("snp", root), 0)]
	if field != "" && v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	if field != "" {
		v = reflect.Indirect(v).FieldByName(field)
	}
	if v.Kind() != reflect.Pointer {
		return v.Interface(), true
	}
	if v.IsNil() {
		return nil, false
	}
	switch v.Elem().Kind() {
	case reflect.String, reflect.Int, reflect.Uint64, reflect.Bool: // a pointer stands for what it points to
		return v.Elem().Interface(), true
	}
	return v.Interface(), true
}

func (arguments) Context() context.Context          { return context.Background() }
func (arguments) Method() string                    { return "" }
func (arguments) Route() string                     { return "" }
func (arguments) Param(string) (string, bool)       { return "", false }
func (arguments) Query(string) (string, bool)       { return "", false }
func (arguments) Header(string) (string, bool)      { return "", false }
func (arguments) Body(string) (string, bool, error) { return "", false, nil }

// random returns a value of a type: often one at an edge.
func random(r *rand.Rand, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	fill(r, v)
	return v
}

var pieces = []string{"", "a", "Z", ":", "-", "%", "{", "}", "/", "é", "\x00", "\xff", "\u0085", "%2D", "42", "007", strings.Repeat("x", 150), "İ"}

func fill(r *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[netip.Addr]() {
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{byte(r.Uint32()), 0, 0, byte(r.Uint32())})))
		return
	}
	switch v.Kind() {
	case reflect.String:
		text := ""
		for range r.IntN(4) {
			text += pieces[r.IntN(len(pieces))]
		}
		if r.IntN(2000) == 0 {
			text = strings.Repeat("long", 3000)
		}
		v.SetString(text)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, int64(r.Uint64())}[r.IntN(6)] >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint([]uint64{0, 1, math.MaxUint64, r.Uint64()}[r.IntN(4)] >> (64 - v.Type().Bits()))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(5), 5))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(r, field)
		}
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	default:
		panic(fmt.Sprintf("no random %v", v.Type()))
	}
}

// fakeKinds notes the key of every method.
type fakeKinds struct{ w *work }

func (f fakeKinds) String(ctx context.Context, _ kinds.All) error    { return f.w.run(ctx) }
func (f fakeKinds) Text(ctx context.Context, _ kinds.All) error      { return f.w.run(ctx) }
func (f fakeKinds) Filtered(ctx context.Context, _ *kinds.All) error { return f.w.run(ctx) }
func (f fakeKinds) Ints(ctx context.Context, _ kinds.All) error      { return f.w.run(ctx) }
func (f fakeKinds) Uints(ctx context.Context, _ *kinds.All) error    { return f.w.run(ctx) }
func (f fakeKinds) Named(ctx context.Context, _ kinds.All) error     { return f.w.run(ctx) }
func (f fakeKinds) Bytes(ctx context.Context, _ kinds.All) error     { return f.w.run(ctx) }
func (f fakeKinds) Texts(ctx context.Context, _ kinds.All) error     { return f.w.run(ctx) }
func (f fakeKinds) Pointers(ctx context.Context, _ kinds.All) error  { return f.w.run(ctx) }
func (f fakeKinds) Defaults(ctx context.Context, _ kinds.All) error  { return f.w.run(ctx) }

func (f fakeKinds) Direct(ctx context.Context, _ string, _ int64, _ *kinds.Text) error {
	return f.w.run(ctx)
}
