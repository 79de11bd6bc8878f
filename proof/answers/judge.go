package main

// What became of one key.

// An outcome is what one of the clients of a key got in the end.
type outcome struct {
	status int    // of the last answer; 0: there was none
	code   string // of a problem, such as IDEMPOTENCY_UNCERTAIN
	body   string // of a success
}

// A verdict counts the keys of a contestant by what became of them.
type verdict struct {
	Keys      int `json:"keys"`
	Once      int `json:"once"`      // paid once, and all clients have that payment
	Twice     int `json:"twice"`     // paid more than once
	Differ    int `json:"differ"`    // clients of one key have the numbers of two payments
	Uncertain int `json:"uncertain"` // clients were told that nobody knows
	Blocked   int `json:"blocked"`   // some client got neither an answer nor that
	False     int `json:"false"`     // a client has a payment, and there is none
}

// judge adds a key whose payments were counted.
func (v *verdict) judge(paid int, clients []outcome) {
	v.Keys++
	numbers := make(map[string]bool)
	uncertain, blocked := false, false
	for _, c := range clients {
		switch {
		case c.status == 201:
			numbers[c.body] = true
		case c.code == "IDEMPOTENCY_UNCERTAIN":
			uncertain = true
		default:
			blocked = true
		}
	}
	switch {
	case paid > 1:
		v.Twice++
	case paid == 1 && len(numbers) == 1 && !uncertain && !blocked:
		v.Once++
	}
	if len(numbers) > 1 {
		v.Differ++
	}
	if paid == 0 && len(numbers) > 0 {
		v.False++
	}
	if uncertain {
		v.Uncertain++
	}
	if blocked {
		v.Blocked++
	}
}
