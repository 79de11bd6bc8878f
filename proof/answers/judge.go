package main

import (
	"net/http"
	"strings"
)

// What became of one key.

// An outcome is what one of the clients of a key got in the end.
type outcome struct {
	asked  string // the body of its request
	status int    // of the last answer; 0: there was none
	code   string // of a problem, such as IDEMPOTENCY_UNCERTAIN
	body   string // of a success
}

// A verdict counts the keys of a contestant by what became of them.
type verdict struct {
	Keys      int `json:"keys"`
	Once      int `json:"once"`      // paid once, and all clients who asked for that have that payment
	Twice     int `json:"twice"`     // paid more than once
	Differ    int `json:"differ"`    // clients of one key have the numbers of two payments
	Crossed   int `json:"crossed"`   // a client has the answer to another request
	Uncertain int `json:"uncertain"` // clients were told that nobody knows
	Refused   int `json:"refused"`   // a client was told that the key was used for another request
	Blocked   int `json:"blocked"`   // some client got neither an answer nor that
	False     int `json:"false"`     // a client has a payment, and there is none
}

// judge adds a key whose payments were counted.
func (v *verdict) judge(paid int, clients []outcome) {
	numbers := make(map[string]bool)
	crossed, uncertain, refused, blocked := false, false, false, false
	for _, c := range clients {
		switch {
		case c.status == http.StatusCreated:
			numbers[c.body] = true
			crossed = crossed || !strings.HasPrefix(c.body, c.asked)
		case c.code == "IDEMPOTENCY_UNCERTAIN":
			uncertain = true
		case c.code == "IDEMPOTENCY_KEY_REUSED":
			refused = true
		default:
			blocked = true
		}
	}
	v.Keys++
	for n, is := range map[*int]bool{
		&v.Twice:     paid > 1,
		&v.Once:      paid == 1 && len(numbers) == 1 && !uncertain && !blocked && !crossed,
		&v.Differ:    len(numbers) > 1,
		&v.Crossed:   crossed,
		&v.False:     paid == 0 && len(numbers) > 0,
		&v.Uncertain: uncertain,
		&v.Refused:   refused,
		&v.Blocked:   blocked,
	} {
		if is {
			*n++
		}
	}
}
