package matrix

import "time"

// Kind is one kind of fault, an entry of a list. The list has the name of its file, which says on which lanes its kinds
// are done:
//
//	network     one worker and its Redis      one server
//	connection  one connection, or its bytes  one server
//	server      Redis keeps each key          one server
//	process     one worker                    one server; also, "Cluster: …" and "quorum: …", on those, where workers have no
//	                                          proxy: what uses one is left out by name in processWithoutProxy
//	tenure      turns within one process      one server, with workers that make them
//	tickets     locks that are handed on      one server, with workers that do
//	forAll      answers of lockmw.Do          one server, with workers that ask for them (answers.go); also, under other names, what
//	                                          alsoForAll names of the lists above
//	forget      Redis forgets a lock          one server, not judged by overlaps; some also, "PostgreSQL: …", with workers that
//	                                          write to a PostgreSQL
//	cluster     a Cluster of three            a Cluster
//	quorum      two or three nodes of five    a quorum
//	sentinel    fail-over                     a master and a replica, not judged by overlaps; no list: TestFailover has its two kinds
//
// pipeline.go has the load under which a Cluster and Sentinels are struck with many commands in flight.
type Kind struct {
	// Name is that of no other kind: the report has a line for each, and PROOF_KINDS, a regular expression, chooses by it. A
	// process, also that of Redis, that is "stopped" got SIGSTOP and goes on with SIGCONT, one that is "killed" got SIGKILL. A pause that
	// Redis makes by itself is called after its command, CLIENT PAUSE.
	Name string

	// Forgets tells that Redis forgets or rewrites a lock: then two may hold it, and overlaps are counted, not
	// forbidden. The whole lane is then judged for no kind by overlaps, or by keys that are left, so this kind needs a
	// lane that may forget, which it shares with such kinds alone: see Needs.
	Forgets bool

	// Needs says what the lane must have, one of the constants below. Only kinds for lanes with one server can need something.
	Needs string

	// Do injects the fault, lets it last, and heals. It returns the keys of which Redis has forgotten every hold, by their names
	// in the load (m, l1); "*" for all, nil if none, or if that cannot be known. How soon their holders notice is measured.
	// Lane.nameNow(key) is what the workers call a key at present; redisKey of that is its name in Redis.
	// The lane waits for holders before it, and for new ones after it. How long something lasts: see Lane.part.
	//
	// Nothing notices a Do that does nothing. The judge fails a kind that met no hold, but a fault that locks survive well,
	// such as SCRIPT FLUSH, leaves their history as it would be without it.
	Do func(l *Lane) (gone []string)

	// Ahead is how far this fault may put fences ahead of Redis's clock. The lane waits that long after it: if Redis
	// forgot the fences sooner, the next ones, made from the clock, would be lower.
	Ahead time.Duration
}

// What a lane with one server must have for some kinds of faults. Kinds with the same Needs share lanes.
const (
	anyServer        = ""                 // a server as it comes
	fromFile         = "append-only file" // a server that keeps what it was told over a restart
	movedClock       = "clock"            // a server whose clock can be moved
	forgetful        = "forgets"          // a server that may forget: the lane is not judged by overlaps
	narrow           = "narrow"           // workers whose connections have small buffers
	tenured          = "tenures"          // workers that pass a lock on among their goroutines: see tenures
	tenuredForgetful = "tenures, forgets" // the same, and the lane is not judged by overlaps

	ticketed          = "tickets"          // four workers that hand locks on by tickets alone: see tickets
	ticketedForgetful = "tickets, forgets" // the same, and the lane is not judged by overlaps

	answersUncertain = "answers, Uncertain" // workers that ask for answers by Crash: Uncertain, and an append-only file: see answers
	answersAgain     = "answers, RunAgain"  // the same, by Crash: RunAgain
)
