package lockadmin

import (
	"slices"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// A setting is what the page is told of a live setting of this process, see lockmw.WithSettings.
type setting struct {
	Pattern string   `json:"pattern"`
	Change  string   `json:"change,omitempty"` // empty: it cannot be read
	Source  string   `json:"source"`
	Author  string   `json:"author,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Off     bool     `json:"off,omitzero"`
	Since   int64    `json:"since,omitzero"`    // milliseconds since 1970, by this process's clock
	Ends    int64    `json:"ends,omitzero"`     // 0: it has no end
	Names   []string `json:"names,omitempty"`   // to whose policies it applies
	Refused []string `json:"refused,omitempty"` // where it does not, and why
}

// mostNames is how many names a setting is shown with.
const mostNames = 20

// settingsOf returns the live settings of a Locker in the page's words.
func settingsOf(locks *lockmw.Locker) []setting {
	all, _ := seam.Settings(locks).([]lockmw.Setting)
	told := []setting{} // not null: a page that was told of some is told that there are none
	for _, s := range all {
		one := setting{
			Pattern: s.Pattern, Change: s.Change, Source: s.Source, Author: s.Author, Reason: s.Reason, Off: s.Off,
			Names: s.Names[:min(len(s.Names), mostNames)], Refused: s.Refused,
		}
		if !s.Since.IsZero() {
			one.Since = s.Since.UnixMilli()
		}
		if !s.Ends.IsZero() {
			one.Ends = s.Ends.UnixMilli()
		}
		told = append(told, one)
	}
	return told
}

// inShadow returns the names whose policies run in shadow in this process, by the program or by a setting.
func inShadow(locks *lockmw.Locker) []string {
	names := []string{} // not null, as above
	for name, n := range locks.Stats().Names {
		if n.Shadow {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostNames)]
}

// same reports whether two settings are told alike.
func (s setting) same(other setting) bool {
	names, refused := slices.Equal(s.Names, other.Names), slices.Equal(s.Refused, other.Refused)
	return names && refused && s.Pattern == other.Pattern && s.Change == other.Change && s.Source == other.Source &&
		s.Since == other.Since && s.Ends == other.Ends && s.Author == other.Author && s.Reason == other.Reason
}
