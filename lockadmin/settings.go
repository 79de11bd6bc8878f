package lockadmin

import (
	"fmt"
	"slices"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/settings"
	"github.com/lockmw/kit/lockmw"
)

// mostSettings is how many live settings a page is told: those that say off before all others.
const mostSettings = 200

// A setting is what the page is told of a live setting of this process, see lockmw.WithSettings.
type setting struct {
	Pattern string   `json:"pattern"`
	Change  string   `json:"change,omitempty"` // empty: it cannot be read
	Source  string   `json:"source,omitempty"` // empty: it stands for those that are not told
	Author  string   `json:"author,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Off     bool     `json:"off,omitzero"`      // work of Names runs without its lock by it
	Since   int64    `json:"since,omitzero"`    // milliseconds since 1970, by this process's clock
	Ends    int64    `json:"ends,omitzero"`     // 0: it has no end
	Names   []string `json:"names,omitempty"`   // to whose policies it applies
	Refused []string `json:"refused,omitempty"` // where it does not, and why
}

// settingsOf returns the live settings of a Locker in the page's words.
func settingsOf(locks *lockmw.Locker) []setting {
	all, _ := seam.Settings(locks).([]lockmw.Setting)
	told := []setting{} // not null: a page that was told of some is told that there are none
	shown, further := mostImportant(all)
	for _, s := range shown {
		one := setting{
			Pattern: s.Pattern, Change: s.Change, Source: s.Source, Author: s.Author, Reason: s.Reason, Off: s.Off,
			Names: settings.First(s.Names, s.MoreNames), Refused: s.Refused,
		}
		if !s.Since.IsZero() {
			one.Since = s.Since.UnixMilli()
		}
		if !s.Ends.IsZero() {
			one.Ends = s.Ends.UnixMilli()
		}
		told = append(told, one)
	}
	if further > 0 {
		told = append(told, setting{Pattern: "…", Change: fmt.Sprintf("and %d more", further)})
	}
	return told
}

// mostImportant returns the settings that are told, those that are off in front, and how many more there are.
func mostImportant(all []lockmw.Setting) (shown []lockmw.Setting, further int) {
	slices.SortStableFunc(all, func(a, b lockmw.Setting) int {
		switch {
		case a.Off == b.Off:
			return 0
		case a.Off:
			return -1
		}
		return 1
	})
	n := min(len(all), mostSettings)
	return all[:n], len(all) - n
}

// inShadow returns the names whose policies run in shadow in this process, by the program or by a setting: the first, and that there are more.
func inShadow(locks *lockmw.Locker) []string {
	names := []string{} // not null, as above
	stats := locks.Stats()
	for name, n := range stats.Names {
		if n.Shadow {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return settings.First(names, stats.MoreShadow)
}

// same reports whether two settings are told alike.
func (s setting) same(other setting) bool {
	names, refused := slices.Equal(s.Names, other.Names), slices.Equal(s.Refused, other.Refused)
	return names && refused && s.Pattern == other.Pattern && s.Change == other.Change && s.Off == other.Off && s.Source == other.Source &&
		s.Since == other.Since && s.Ends == other.Ends && s.Author == other.Author && s.Reason == other.Reason
}
