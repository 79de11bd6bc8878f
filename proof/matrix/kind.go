package matrix

import "time"

// Kind is one kind of fault, an entry of a list. The list has the name of its file, which says on which lanes its kinds
// are done:
//
//	network     one worker and its Redis      one server
//	connection  one connection, or its bytes  one server
//	server      Redis keeps each key          one server
//	process     one worker                    one server; also, "Cluster: …" and "quorum: …", on those (processWithoutProxy)
//	tenure      turns within one process      one server, with workers that make them
//	forget      Redis forgets a lock          one server, not judged by overlaps
//	cluster     a Cluster of three            a Cluster
//	quorum      two or three nodes of five    a quorum
//	sentinel    fail-over                     a master and a replica, not judged by overlaps
//
// pipeline.go has the load under which cluster and sentinel strike many commands in flight.
type Kind struct {
	Name string // no other kind has it: the report has a line for each
	// Forgets tells that Redis forgets or rewrites a lock: then two may hold it.
	Forgets bool
	// Needs says what the server must be able to do; see anyServer and its like. Lanes are started for each.
	Needs string
	// Do injects the fault, lets it last, and heals. It returns which keys Redis
	// has forgotten (without epochs; "*" for all).
	Do func(l *Lane) (gone []string)

	// Ahead is for how long fences may be ahead of the clock after it. What makes Redis
	// forget them comes later: by the clock the next fences would be lower.
	Ahead time.Duration
}

// What the server of a lane must be able to do for some kinds of faults.
const (
	anyServer  = ""
	fromFile   = "append-only file" // it keeps what it was told over a restart
	movedClock = "clock"
	forgetful  = "forgets" // its lane is not judged by overlaps
	narrow     = "narrow"  // its workers' connections have small buffers
)
