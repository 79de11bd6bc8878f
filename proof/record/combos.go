package record

import "time"

// Combos is what the combined matrix saw; combos.json is one.
type Combos struct {
	Seed         uint64                    `json:"seed"`
	Rounds       int                       `json:"rounds"`
	Injections   int                       `json:"injections"`
	Combinations int                       `json:"combinations"` // that differ in one value at least
	Took         time.Duration             `json:"took"`
	Lines        []ComboLine               `json:"lines"`  // by their faults
	Values       map[string]map[string]int `json:"values"` // rounds, by dimension and value
	Worst        map[string]time.Duration  `json:"worst"`
	Found        []ComboFound              `json:"found"` // what must not be
	Known        map[string]int            `json:"known"` // rounds that showed what is known and not mended yet
}

// ComboLine is what the report says of one fault of the combined matrix.
type ComboLine struct {
	Fault      string `json:"fault"`
	Rounds     int    `json:"rounds"`
	Injections int    `json:"injections"`
	Granted    int    `json:"granted"`
	Refused    int    `json:"refused"`
	Open       int    `json:"open"`  // went on without the lock, as FailOpen lets them
	Found      int    `json:"found"` // rounds with something that must not be
}

// ComboFound is something that must not be.
type ComboFound struct {
	Rule        string `json:"rule"`
	Text        string `json:"text"`
	Token       string `json:"token"` // runs the round again: PROOF_ROUND
	Combination string `json:"combination"`
}

// What the combined matrix is to do.
const (
	ComboInjections   = 5000
	ComboCombinations = 400
)

// Met says that it did as much as it was to do, and found nothing.
func (c Combos) Met() bool {
	return c.Injections >= ComboInjections && c.Combinations >= ComboCombinations && len(c.Found) == 0
}
