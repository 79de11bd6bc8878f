package main

import (
	"net/http"
	"strings"
)

// What became of one payment.

// An outcome is what one of the clients of a payment got in the end.
type outcome struct {
	asked  string // how the answer to its request begins: its body, its user and its route
	status int    // of the last answer; 0: there was none
	code   string // of a problem, such as IDEMPOTENCY_UNCERTAIN
	body   string // of a success
}

// A verdict counts the payments of a contestant by what became of them.
type verdict struct {
	Keys      int `json:"keys"`
	Once      int `json:"once"`      // paid once, and all clients who asked for that have that payment
	Twice     int `json:"twice"`     // paid more than once
	Differ    int `json:"differ"`    // clients of one key have the numbers of two payments
	Crossed   int `json:"crossed"`   // a client has the answer to another request, of another user, or of another route
	Uncertain int `json:"uncertain"` // clients were told that nobody knows
	Refused   int `json:"refused"`   // a client was told that the key was used for another request
	Blocked   int `json:"blocked"`   // some client got neither an answer nor that
	False     int `json:"false"`     // a client has a payment, and there is none
	Together  int `json:"together"`  // two were at work on it at a time

	// Of those to which nothing happened, or nothing but the death of a process at a known step.
	Calm map[string]int `json:"calm"` // by the step, "" for those to which nothing happened: how many there were
	Odd  map[string]int `json:"odd"`  // by the step: how many of them did not end as they must
}

// circumstances are what happened while a payment was made.
type circumstances struct {
	died    int  // how many processes died that were asked for it
	faults  bool // Redis may have been ill
	stalled bool // the machine stood still, for as long as a lock may be lost by
	tells   bool // work that may have been done is told as uncertain, and not done again
}

// tellsUncertain is the contestant that does.
const tellsUncertain = "lockmw, Uncertain"

// judge adds a payment.
func (v *verdict) judge(h history, clients []outcome, c circumstances) {
	numbers := make(map[string]bool)
	crossed, uncertain, refused, blocked := false, false, false, false
	for _, got := range clients {
		switch {
		case got.status == http.StatusCreated:
			numbers[got.body] = true
			crossed = crossed || !strings.HasPrefix(got.body, got.asked)
		case got.code == "IDEMPOTENCY_UNCERTAIN":
			uncertain = true
		case got.code == "IDEMPOTENCY_KEY_REUSED":
			refused = true
		default:
			blocked = true
		}
	}
	once := h.paid == 1 && len(numbers) == 1 && !uncertain && !blocked && !crossed
	v.Keys++
	for n, is := range map[*int]bool{
		&v.Twice:     h.paid > 1,
		&v.Once:      once,
		&v.Differ:    len(numbers) > 1,
		&v.Crossed:   crossed,
		&v.False:     h.paid == 0 && len(numbers) > 0,
		&v.Uncertain: uncertain,
		&v.Refused:   refused,
		&v.Blocked:   blocked,
		&v.Together:  h.overlaps > 0,
	} {
		if is {
			*n++
		}
	}
	step, calm := c.step(h)
	if !calm {
		return
	}
	runs, told := endsAs(step, c.tells)
	count(&v.Calm, step)
	if h.paid != runs || uncertain != told || blocked || crossed || told == (len(numbers) == 1) || len(numbers) > 1 {
		count(&v.Odd, step)
	}
}

// count adds one to a counter of several, which may be nil.
func count(counters *map[string]int, name string) {
	if *counters == nil {
		*counters = make(map[string]int)
	}
	(*counters)[name]++
}

// step is the one at which a process died, if nothing else happened; "": none did. calm is false if it is not known what else did.
func (c circumstances) step(h history) (step string, calm bool) {
	switch {
	case c.faults || c.stalled || len(h.died) != c.died || c.died > 1:
		return "", false
	case c.died == 1:
		return h.died[0], true
	}
	return "", true
}

// endsAs is how a payment ends of which a process died at that step: how often it is paid, and whether all are told that nobody knows.
func endsAs(step string, tells bool) (runs int, told bool) {
	switch step {
	case beforeWork, inWork:
		if tells {
			return 0, true
		}
	case paidInWork, afterWork, beforeRecord:
		if tells {
			return 1, true
		}
		return 2, false
	}
	return 1, false
}
