package lockadmin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Of a lot of settings the page has those that say off, and is told how many more there are.
func TestOfManySettingsThePageHasThoseThatSayOff(t *testing.T) {
	var all []lockmw.Setting
	for i := range 500 {
		all = append(all, lockmw.Setting{Pattern: fmt.Sprint("shop/p", i), Off: i >= 490})
	}
	shown, further := mostImportant(slices.Clone(all))
	if len(shown) != mostSettings || further != 500-mostSettings {
		t.Fatalf("%d are shown, and %d are not", len(shown), further)
	}
	for i, s := range shown {
		if want := all[(490+i)%500].Pattern; s.Pattern != want {
			t.Errorf("%d is %s, want %s", i, s.Pattern, want)
		}
	}
	if shown, further := mostImportant(all[:mostSettings]); len(shown) != mostSettings || further != 0 || shown[0].Pattern != "shop/p0" {
		t.Errorf("of few, %d are shown, and %d are not", len(shown), further)
	}
}

// Of a lot of names in shadow the page has the first, and that there are more.
func TestOfManyNamesInShadowThePageSaysThatThereAreMore(t *testing.T) {
	locks, err := lockmw.New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(t.Context()) }()
	if names := inShadow(locks); names == nil || len(names) != 0 {
		t.Errorf("at first, %q", names)
	}
	for i := range 25 {
		hold(t, locks, lockmw.Policy{Name: fmt.Sprintf("p%02d", i), Shadow: true})
	}
	if names := inShadow(locks); len(names) != 21 || names[0] != "p00" || names[20] != "… and 5 more" {
		t.Errorf("%q", names)
	}
}

// hold takes the lock of k until the test ends.
func hold(t *testing.T, locks *lockmw.Locker, p lockmw.Policy) {
	t.Helper()
	_, lease, err := locks.Acquire(t.Context(), "k", p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(t.Context()) })
}
