package mono

import (
	"testing"
	"time"
)

func TestMomentsComeBackAsTheyWere(t *testing.T) {
	for name, at := range map[string]time.Time{
		"none": {}, "now": time.Now(), "to come": time.Now().Add(time.Hour), "long ago": epoch.Add(-time.Hour),
	} {
		if got := Time(Of(at)); !got.Equal(at) || got.IsZero() != at.IsZero() {
			t.Errorf("%s: %v, want %v", name, got, at)
		}
	}
	if Of(time.Time{}) != 0 {
		t.Error("the zero time is not 0")
	}
}
