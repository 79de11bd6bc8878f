package lockotel_test

import (
	"context"
	"errors"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockotel"
	"github.com/lockmw/kit/locktest"
)

// An exporter drops a whole batch of spans or metrics, those of others included, where one
// text in it is no UTF-8. A key that a client has chosen may be any bytes, and so may the
// Name of a policy that is refused.
func TestWhatIsExportedIsUTF8(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option(lockotel.WithKeyAttribute()))
	ctx, span := w.tracer.Tracer("test").Start(context.Background(), "request")
	if err := locks.WithLock(ctx, "k\xff", lockmw.Policy{Name: "n"}, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []lockmw.Policy{{Name: "a\xff"}, {Prefix: "b\xff"}} {
		if _, _, err := locks.Acquire(ctx, "k", p); !errors.Is(err, lockmw.ErrInvalidPolicy) {
			t.Fatalf("Acquire = %v", err)
		}
	}
	span.End()
	seen := 0
	for _, s := range w.spans.GetSpans() {
		for _, a := range s.Attributes {
			seen++
			if a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString()) {
				t.Errorf("span %s: %s is %q", s.Name, a.Key, a.Value.AsString())
			}
		}
	}
	if seen == 0 {
		t.Error("no span has an attribute")
	}
	for labels := range w.values(t) {
		if !utf8.ValidString(labels) {
			t.Errorf("metric %q", labels)
		}
	}
}
