package main

// check is one of those that are to be published.
type check struct {
	Number  int
	What    string
	Goal    string
	Command string // what runs it
}

// Commands that make results.
const (
	makeProof   = "make proof"
	makeSoak    = "make soak"
	makeRivals  = "make proof-rivals"
	makeMutants = "make mutants"
	makeCombos  = "make combos"
)

// commands says by which target the run of a name is repeated.
var commands = map[string]string{"proof": makeProof, "soak": makeSoak, "rivals": makeRivals, "mutants": makeMutants, "combos": makeCombos}

// checks lists what was set as the goal before anything was measured. TTL is 2 s
// unless said otherwise.
var checks = []check{
	{1, "1000 concurrent requests × 10 rounds through a door, 4 processes, a read-modify-write that is not atomic", "10,000 of 10,000 in 10 of 10 runs; the control without the lock below 10,000", makeProof},
	{2, "porcupine on the histories made under faults: mutex, readers/writer, permits, fenced register", "≥ 40,000 operations, ≥ 20 keys: 0 illegal, 0 unknown", makeProof},
	{3, "mutants: mistakes put into the code on purpose", "40 of 40 caught, each within 60 s", makeMutants},
	{4, "faults while Redis keeps its word", "≥ 24 kinds × ≥ 50 injections: 0 overlaps", makeProof},
	{5, "Redis forgets, with a fenced store", "≥ 6 kinds × 30: 0 stale writes accepted; loss noticed within TTL/3 + 0.5 s", makeProof},
	{6, "holder partitioned", "200 of 200: context done ≥ 100 ms before the key can expire", makeProof},
	{7, "SIGSTOP of the holder for 1.5 TTL", "50 of 50: first Valid() false; context done within 100 ms of SIGCONT", makeProof},
	{8, "SIGKILL of the holder", "100 of 100: next holder within TTL + 0.5 s", makeProof},
	{9, "reply to acquire lost, reply to release lost", "200 each: no self-deadlock, no false loss; key free or ours within 1 s", makeProof},
	{10, "ctx cancelled at a random 0–50 ms into acquire", "500: caller back within 20 ms of the cancel; no key or queue entry older than 1.5 s", makeProof},
	{11, "ways out of a handler: return, error, panic, ErrAbortHandler, Goexit × every door", "100 each: 0 keys left; the panic's value kept", makeProof},
	{12, "CLIENT KILL TYPE pubsub every 100 ms", "2,000 hand-overs: longest gap ≤ 1.1 s, 0 stuck waiters", makeProof},
	{13, "SCRIPT FLUSH every 20 ms", "10,000 cycles: 0 errors seen by the user", makeProof},
	{14, "OOM, READONLY, NOREPLICAS, MISCONF, LOADING, BUSY, NOAUTH, WRONGPASS, NOPERM, WRONGTYPE, CROSSSLOT, CLUSTERDOWN, MOVED, max clients", "each maps to the documented error, HTTP status and gRPC code; 0 handlers run", makeProof},
	{15, "the application's pool saturated for 3 TTL with 100 held locks", "0 lost; renewal p99 ≤ TTL/6", makeProof},
	{16, "10,000 held locks in one process, TTL 30 s", "0 lost; goroutines ≤ baseline + 10; CPU ≤ 10 % of a core", makeProof},
	{17, "1,000,000 distinct keys acquired and released", "heap grows ≤ 5 MiB; Redis memory ≤ 1 MiB", makeProof},
	{18, "different key parts give different keys, exhaustive over 6 special characters and fuzzed", "0 collisions, 0 panics", makeProof},
	{19, "40 spellings of URLs × every HTTP door", "the key agrees with what the handler sees, all", makeProof},
	{20, "100 bodies of 1 GiB, and bodies at 1 B/s", "413 before any Redis call; 0 locks held while a body is unread", makeProof},
	{21, "1,000 waiters on one key from 4 processes", "≤ 6 Redis commands a hand-over; all served", makeProof},
	{22, "Sentinel fail-over, and a 3-node Cluster with a slot moved, under load", "errors only while no master is up; recovers by itself; overlaps counted and published", makeProof},
	{23, "goleak in every package; 100,000 cycles", "goroutines ± 2, connections ± 0", makeProof},
	{24, "soak with a random fault every 5–15 s", "0 overlaps while Redis keeps its word, 0 stale writes, alive again within TTL + 1 s of healing, memory slope ~0", makeSoak},
	{25, "Sentinel: the master freezes, its replica takes over, the old one goes on", "20 of 20 follow within 1 s of the user's own failover client; held leases are told within TTL/3 + 0.5 s; 0 double holds after that", makeProof},
	{26, "a process joins while the lock passes on within another", "1,000 of 1,000 have a turn within a hold + 10 ms + two round trips behind those who came before; 100 of 100 within 1.2 s where the other is not told", makeProof},
	{27, "callers of two processes who come at random", "nobody is overtaken by one who came more than 50 ms + a round trip later", makeProof},
	{28, "turns of 16 and 64 goroutines of one process, 1 ms inside, Redis 0, 1 and 5 ms away", "within 10 % of 1 / hold; ≤ 0.01 commands a turn", makeProof},
	{29, "faults while the lock passes on within a process", "fences grow and holders do not overlap: partition, release by force, a clock that is set back, no subscription", makeProof},
	{30, "the leader of three processes is killed, stopped or cut off", "30 of 30 each: another one leads within TTL + 0.5 s; never two", makeProof},
	{31, "a job every second for 60 s in three processes, one of which is killed and one stopped", "one run in each second, or none where nobody could know; never two", makeProof},
	{32, "locks handed on by tickets among four processes, under faults", "≥ 10,000 went on by a ticket, none by one that was used; while Redis keeps its word 0 overlaps, and nobody has a lock that is a ticket's; each job that is not lost is done, ≥ 100 of them when their worker was killed", makeProof},
	{33, "one answer for all who ask, over three processes, under faults, by Uncertain and by RunAgain", "≥ 50,000 answered, and ≥ 1,000 each told that nobody knows, and that the key is another request's; with Uncertain no work done twice, with RunAgain never two at it; one answer a key, nobody has another's; all who ask hear something", makeProof},
}

// listed returns the check of a number.
func listed(number int) check { return checks[number-1] }
