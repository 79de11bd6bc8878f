package door_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/lockmw"
)

func TestWhatIsRecordedHasNoKey(t *testing.T) {
	for _, key := range []string{"order:secret", "k", `a"secret"b`, "secret ü\u202e"} {
		for _, name := range []string{"pay", "order:", key} {
			for _, reason := range []error{
				lockmw.ErrNotAcquired,
				fmt.Errorf("%w: the Redis key %q holds data of another program", lockmw.ErrUnavailable, "lock:{"+key+"}:queue"),
			} {
				given := &lockmw.AcquireError{Key: key, Name: name, Attempts: 1, Err: reason}
				got := door.Recorded(fmt.Errorf("wrapped: %w", given))
				if name != key && len(key) > 1 && strings.Contains(got.Error(), "secret") {
					t.Errorf("%q has the key", got)
				}
				for link := errors.Unwrap(got); link != nil; link = errors.Unwrap(link) {
					t.Errorf("%q unwraps to %q", got, link)
				}
				refused, ok := errors.AsType[*lockmw.AcquireError](got)
				if !ok || refused != given || !errors.Is(got, reason) {
					t.Errorf("%v is not the refusal", got)
				}
			}
		}
	}
	got := door.Recorded(&lockmw.AcquireError{Key: "order:42", Name: "pay", Attempts: 2, Err: lockmw.ErrNotAcquired}).Error()
	if want := `lockmw: acquire for "pay": lock not acquired (2 attempts in 0s)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := door.Recorded(lockmw.ErrLost); got != lockmw.ErrLost { //nolint:errorlint // it is that one
		t.Errorf("got %v", got)
	}
}

func TestPartsOfWhatWasToldAreHandedOn(t *testing.T) {
	reason := errors.New("dial tcp: connection refused")
	handlers, lost := errors.New("no such order"), fmt.Errorf("lost: %w", lockmw.ErrLost)
	refused := &lockmw.AcquireError{Key: "k", Err: reason}
	for _, tc := range []struct {
		name      string
		own, told error
		want      bool
	}{
		{"nothing", nil, refused, false},
		{"all", refused, refused, true},
		{"wrapped", fmt.Errorf("pay: %w", refused), refused, true},
		{"the reason", reason, refused, true},
		{"the reason, wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", reason)), refused, true},
		{"the reason, joined", errors.Join(errors.New("pay"), reason), refused, true},
		{"the loss", lost, door.WithLoss(handlers, lost), true},
		{"the handler's error", handlers, door.WithLoss(handlers, lost), true},
		{"an error of its own", errors.New("later"), refused, false},
		{"several of its own", errors.Join(errors.New("later"), errors.New("much")), refused, false},
	} {
		if got := door.HandsOn(tc.own, tc.told); got != tc.want {
			t.Errorf("%s: HandsOn = %v, want %v", tc.name, got, tc.want)
		}
	}
}
