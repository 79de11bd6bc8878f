package history

import (
	"fmt"
	"slices"
)

// ResumedTwice returns what went on by a ticket by which another hold had gone on: a ticket works once.
func ResumedTwice(holds []Hold) (twice []string) {
	for ticket, by := range byKey(holds, func(h Hold) string { return h.Ticket }) {
		if ticket != "" && len(by) > 1 {
			twice = append(twice, fmt.Sprintf("%s: by the ticket of %s %s/%d went on, and %s/%d", by[0].Key, ticket, by[0].Worker, by[0].ID, by[1].Worker, by[1].ID))
		}
	}
	slices.Sort(twice)
	return twice
}

// Resumed counts the holds that went on by a ticket.
func Resumed(holds []Hold) (n int) {
	for _, h := range holds {
		if h.Ticket != "" {
			n++
		}
	}
	return n
}
