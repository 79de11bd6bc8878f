package model

// Smallest are sizes that a test can look at in seconds.
var Smallest = []Size{
	{Name: "two take turns", Lockers: 2, Claims: 1, Waits: true},
	{Name: "two that do not wait, a reply is lost", Lockers: 2, Claims: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two calls of one process", Lockers: 1, Claims: 2, Waits: true},
	{Name: "a writer and a reader", Lockers: 2, Claims: 1, Waits: true, Kinds: []Kind{Exclusive, Shared}},
}

// Larger are those that take minutes.
var Larger = []Size{
	{Name: "two renew, one leaves", Lockers: 2, Claims: 1, Waits: true, Renews: true, Leaves: 1},
	{Name: "two renew, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two, one leaves, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Leaves: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two renew, messages and subscriptions fail", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{LoseMessage, Deafen}},
	{Name: "two renew, a process dies", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{Crash}},
	{Name: "two, the lock is deleted, forgotten or released by force", Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "two, the clock is set back", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{SetBack}},
	{Name: "a writer and a reader, one leaves", Lockers: 2, Claims: 1, Waits: true, Renews: true, Leaves: 1, Kinds: []Kind{Exclusive, Shared}},
	{Name: "two permits, three want one", Lockers: 3, Claims: 1, Waits: true, Kinds: []Kind{Permit}},
	{Name: "three take turns", Lockers: 3, Claims: 1, Waits: true},
	{Name: "two calls in each of two processes", Lockers: 2, Claims: 2, Waits: true},
	{Name: "three, a process dies or a message is lost", Lockers: 3, Claims: 1, Waits: true, Faults: 1, May: []Fault{Crash, LoseMessage}},
}
