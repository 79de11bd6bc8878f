package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryPaymentCountsWithTheDecorators(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `^with the decorators  200 of 200 payments count, 300 of 300 pieces are there
without them         [ \d]{2}\d of 200 payments count, +-?\d+ of 300 pieces are there
call 1: the report is written
call 2: another call has done that
call 3: another call has done that
$`
	if !regexp.MustCompile(want).Match(out.Bytes()) || regexp.MustCompile(`without them +200`).Match(out.Bytes()) {
		t.Errorf("output:\n%swant:\n%s", &out, want)
	}
	t.Logf("\n%s", &out)
}

func TestLocksAreGenerated(t *testing.T) { locktest.Generated(t) }

// once has refusals come at once: in a test nobody needs to wait for them.
func once(_ string, p *lockmw.Policy) { p.Wait = 0 }

// lookingOrders looks at the locks while it pays.
type lookingOrders struct {
	Ledger

	look func()
}

func (o *lookingOrders) Pay(ctx context.Context, order Order) (Receipt, error) {
	o.look()
	return o.Ledger.Pay(ctx, order)
}

func TestPayLocksTheOrder(t *testing.T) {
	locks := locktest.New(t)
	var locked []string
	orders := LockOrders(&lookingOrders{look: func() { locked = locktest.Keys(t, locks) }}, locks, once)
	if receipt, err := orders.Pay(t.Context(), Order{ID: "A42"}); err != nil || receipt.Payments != 1 {
		t.Errorf("Pay = %v, %v", receipt, err)
	}
	if want := []string{"order:a42"}; !slices.Equal(locked, want) {
		t.Errorf("locked were %q, want %q", locked, want)
	}
	locktest.Hold(t, locks, "order:a42") // as another process would
	if receipt, err := orders.Pay(t.Context(), Order{ID: "a42"}); receipt.Payments != 0 || !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("Pay = %v, %v; want %v", receipt, err, lockmw.ErrNotAcquired)
	}
}

func TestAnOrderWithoutIDIsRefused(t *testing.T) {
	orders := LockOrders(new(Ledger), locktest.New(t))
	if _, err := orders.Pay(t.Context(), Order{}); !errors.Is(err, lockmw.ErrInvalidKey) || orders.Payments() != 0 {
		t.Errorf("err = %v, want %v; payments = %d", err, lockmw.ErrInvalidKey, orders.Payments())
	}
}

func TestMoveLocksBothShelves(t *testing.T) {
	locks := locktest.New(t)
	stock := LockStock(newStock(), locks, once)
	for _, shelf := range []string{"shelf:eu:a", "shelf:eu:b"} {
		release := locktest.Hold(t, locks, shelf)
		if err := stock.Move(t.Context(), "b", "a", 1); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("%s is held: err = %v, want %v", shelf, err, lockmw.ErrNotAcquired)
		}
		release()
	}
	if err := stock.Move(t.Context(), "b", "a", 1); err != nil || stock.Pieces() != 300 {
		t.Errorf("err = %v, pieces = %d", err, stock.Pieces())
	}
	if err := stock.Move(t.Context(), "a", "z", 1); err == nil {
		t.Error("there is a shelf z")
	}
}

func TestTheReportIsLockedBeyondItsEnd(t *testing.T) {
	locks := locktest.New(t)
	if err := LockReport(locks)(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got, want := locktest.Keys(t, locks), []string{"annotated.Report"}; !slices.Equal(got, want) {
		t.Errorf("locked are %q, want %q", got, want)
	}
}
