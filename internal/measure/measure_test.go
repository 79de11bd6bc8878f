package measure

import (
	"testing"

	"github.com/lockmw/kit/lockmw"
)

// Work that runs without its lock and has a Name that a Locker does not remember counts as other.
func TestMoreNamesThatAreOffCountAsOther(t *testing.T) {
	var s SettingsSum
	s.Add(&lockmw.SettingsStats{Off: []string{"pay"}}, func(name string) string { return name })
	if s.OffOf("pay") != 1 || s.OffOf(other) != 0 {
		t.Errorf("%v are off", s.Off)
	}
	s.Add(&lockmw.SettingsStats{MoreOff: true}, func(name string) string { return name })
	if s.OffOf(other) != 1 {
		t.Errorf("%v are off", s.Off)
	}
}
