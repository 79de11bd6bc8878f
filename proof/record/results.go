package record

import (
	"slices"
	"time"

	"github.com/lockmw/kit/proof/history"
)

// Line is what the report says of one kind of fault; matrix*.json and
// forgets*.json are lists of them.
type Line struct {
	Kind       string        `json:"kind"`
	Forgets    bool          `json:"forgets"`
	Injections int           `json:"injections"`
	Met        int           `json:"met"`       // holds that were open when such a fault began
	Holds      int           `json:"holds"`     // that began between such an injection and the next one of its lane
	Lost       int           `json:"lost"`      // of those that were open then or began, how many were lost
	Overlaps   int           `json:"overlaps"`  //
	Margin     time.Duration `json:"margin"`    // the shortest time from the end of a lost or killed holder to the next one; NoMargin: there was none
	Recovery   time.Duration `json:"recovery"`  // the longest from healing until all short keys had a new holder
	Noticed    time.Duration `json:"noticed"`   // the longest from the forgetting to the end of a hold that was forgotten
	Forgotten  int           `json:"forgotten"` // how many of those there were
}

// NoMargin is the Margin of a kind in which no holder was lost or killed before another one.
const NoMargin time.Duration = -1

// Count returns how many kinds and injections there were, and of the rarest kind.
func Count(lines []Line, forgets bool) (kinds, injections, overlaps, least int) {
	all := make(map[string]int)
	for _, line := range lines {
		if line.Forgets == forgets {
			all[line.Kind] += line.Injections
			injections += line.Injections
			overlaps += line.Overlaps
		}
	}
	var each []int
	for _, n := range all {
		each = append(each, n)
	}
	if len(each) > 0 {
		least = slices.Min(each)
	}
	return len(all), injections, overlaps, least
}

// Rival is what one engine did in one experiment; rivals.json is a list of them.
type Rival struct {
	Engine     string        `json:"engine"`
	Experiment string        `json:"experiment"`
	Tries      int           `json:"tries"`
	Overlaps   int           `json:"overlaps"` // tries in which two held the lock
	Worst      time.Duration `json:"worst"`    // the longest overlap
	False      int           `json:"false"`    // false losses and other wrong answers
	Stuck      int           `json:"stuck"`    // tries after which the key stayed taken
	Note       string        `json:"note,omitempty"`
}

// Mutant is one mistake that was put into the code on purpose; mutants.json is a
// list of them.
type Mutant struct {
	Name   string        `json:"name"`
	What   string        `json:"what"` // what was changed
	Caught bool          `json:"caught"`
	By     string        `json:"by"` // the check that failed
	Took   time.Duration `json:"took"`
}

// Timeline is what is drawn of one experiment; its file is timeline-*.json. All
// times are of package clock.
type Timeline struct {
	Engine string         `json:"engine"`
	Key    string         `json:"key"`
	TTL    time.Duration  `json:"ttl"`
	From   time.Duration  `json:"from"`
	To     time.Duration  `json:"to"`
	Faults []Fault        `json:"faults"`
	Holds  []history.Hold `json:"holds"`
}

// Fault is one fault of a timeline.
type Fault struct {
	Label  string        `json:"label"`
	Worker string        `json:"worker"` // empty: it struck all of them
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// Run is what the figures of one command depend on; its file is run-*.json. It
// names no host.
type Run struct {
	Command  string            `json:"command"`
	Commit   string            `json:"commit"`
	Date     time.Time         `json:"date"` // of its start, in UTC
	Seed     uint64            `json:"seed"` // 0: none was used
	Go       string            `json:"go"`
	Redis    string            `json:"redis"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Versions map[string]string `json:"versions"`
	Took     time.Duration     `json:"took"`             // 0: it has not ended
	Failed   string            `json:"failed,omitempty"` // how it ended, unless well
	Again    []Again           `json:"again,omitempty"`
}

// Again is a part of a run that was run once more, in place of what had failed.
type Again struct {
	What   string    `json:"what"` // the command
	Commit string    `json:"commit"`
	Date   time.Time `json:"date"`
	Failed string    `json:"failed,omitempty"`
}

// Stands says that the run ended well, or what had failed did when it was run
// again.
func (r Run) Stands() bool {
	if n := len(r.Again); n > 0 {
		return r.Again[n-1].Failed == ""
	}
	return r.Failed == "" && r.Took > 0
}
