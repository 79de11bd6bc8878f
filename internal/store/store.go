// Package store is the seam between the lock engine and the places that keep
// locks. The engine (package lockmw) decides how to wait, renew and give up; a
// Store only carries out single commands about single tokens.
//
// Every Store keeps these promises, and storetest checks them:
//
//   - a held key always carries a TTL, set in the same step that took it;
//   - only the token that holds a key renews or releases it;
//   - Renew never creates a key;
//   - asking the same thing twice with one token gives the same answer, so a
//     caller that lost a reply may simply ask again; a store that does not keep the
//     fence of a grant may tell a higher one to a caller that does not know the first,
//     and tells the same from then on;
//   - waiters are served in the order in which they first asked to wait, and
//     nobody who asks later overtakes a live one, of whichever kind;
//   - where several hold a key, each one's TTL is its own;
//   - nothing stays behind a key's last holder and last waiter.
//
// Stores are safe for concurrent use.
package store

import (
	"cmp"
	"context"
	"time"
)

// A Ref names one holder or waiter of one key.
type Ref struct {
	Key   string        // the lock's name, without the store's namespace
	Token string        // made by NewToken of the same store; a capability
	TTL   time.Duration // how long the store keeps the key without a renewal
	Kind  Kind          // who may hold the key beside it

	// Least is how long a grant lasts at least, also one that a release hands
	// to a waiter and nobody takes note of. At most TTL.
	Least time.Duration

	// Fence is that of the token's grant, if the caller was told one, for whatever ends
	// the grant or prolongs it, and for asking again: a store need not remember the fence
	// of a lock that is held, and takes a zero Fence for a grant of which nobody was told.
	Fence int64

	// Estimate is that of the Answer that granted the token, and says which value the store
	// wrote then: so it can be compared at less cost when the lock is given back. Zero, where
	// the caller does not have it, is always right.
	Estimate int64
}

// A Kind says who may hold a key together. The zero Kind is exclusive. Kinds
// that differ, apart from the number of permits, exclude each other.
type Kind struct {
	Shared  bool // with others that are Shared
	Permits int  // with others that want permits, while no more than this hold
}

// Join says what an Acquire that is not granted leaves behind.
type Join uint8

const (
	// Try leaves nothing: the token does not enter the queue.
	Try Join = iota
	// Wait puts the token at the tail of the queue, or keeps its place when
	// it already stands there, and tells the store that its process lives.
	Wait
	// Last is the last command of a waiter: not granted, it leaves the
	// queue in the same step.
	Last
)

// A Request is what one Acquire asks for.
type Request struct {
	Ref
	Join Join

	// Again says that the caller has asked for the key before, or has heard that others
	// hold it: the key is probably taken.
	Again bool

	// Place is the one that a token which the store does not know gets with
	// Wait. The zero Place is the last.
	Place Place

	// Next, if it has a token, gets its place in the queue in the same step, if the token, with Last, is not granted: an exclusive waiter of the
	// same store value, as a release has one (Give.Next). It is only for a store that Queues.
	Next Waiter

	// Recall, if not nil, has a record of the key be looked for first. If one answers the caller, the Answer has that, and the
	// token neither has the key nor a place in the queue by this command.
	Recall *Recall

	// Ticket, if not nil, asks for the key that was handed on to it (Give.Ticket), in the place of whoever waits: the key is not free.
	// It is for an exclusive token that never waits, and for a store that Queues. Asked again the token gets the same grant.
	Ticket *Ticket

	// Until bounds the command. Zero is the store's own bound, as is what lies behind it.
	Until time.Time

	// Late, if not nil, is called once when ctx ended before the answer came
	// (the error is Pending): with the answer when it arrives at last, or with
	// the error that ended the command. It runs on a goroutine of the store
	// and must not block.
	Late func(Answer, error)
}

// A Place in the queue is that of one who came Waited ago. Behind is how many
// more wait for the key at this store value without the store's knowing; it is
// for Inspect.
type Place struct {
	Waited time.Duration
	Behind int
}

// A Grant is what a store promises whom it gives the key.
type Grant struct {
	Fence    int64 // of the grant; 0 when the store has no fences
	Estimate int64 // for Ref.Estimate: of the store's clock at the grant, where the store was not asked for it

	// Clock is the store's clock at the grant, in microseconds since an epoch of its own.
	Clock int64

	// NextCame is when the first who waits on came, on the clock of Clock, for a key
	// that was granted exclusively; 0 if nobody waits.
	NextCame int64

	// Unqueued says that the key was granted without a look at the queue: others may
	// wait, and the store tells nobody of them.
	Unqueued bool
}

// Number names the grant beside the token, for a Ticket.
func (g Grant) Number() int64 { return cmp.Or(g.Estimate, g.Fence) }

// An Answer is the store's reply to a Request. Its Clock is set also if it grants nothing; the
// rest of its Grant is not.
type Answer struct {
	Granted bool
	Grant
	Left time.Duration // not granted: what is left of the holder's TTL

	// Holder is the one that has the key, if the command was not granted; of several, where the store can tell, the one that
	// has had it longest and is at work. Where one has the key exclusively, HolderFence is the fence of its grant, or, where
	// the store does not remember it, a number close to it that names the same grant.
	// Both are zero where the store cannot tell.
	Holder      Holder
	HolderFence int64

	// CoolingDown says that nobody is at work under the key, for a command that was not
	// granted: all who have it were given back with a Stay, and it stays taken for Left. Where
	// a store does not know, it is false.
	CoolingDown bool

	// Waiting is how many stand in the queue, for a command that was not granted
	// and leaves nothing there.
	Waiting int

	// Siblings are other tokens of this store value, with blanks between
	// them, that hold the key and may not know it. A waiter whose grant
	// message was lost is found that way.
	Siblings string

	// Fresh says that the store did not know any waiter of this process on
	// this key. After the first command it means that the queue was lost.
	Fresh bool

	// Placed says that the Next of a Request has its place.
	Placed bool

	// Ballot is how the nodes of a quorum answered, where that did not grant.
	// The attempt is taken back then; the next one takes a new token.
	Ballot *Ballot

	// Recalled is the record that answers a Request with Recall, or nil.
	Recalled *Recalled

	// Spent says that a Request's Ticket has nothing and never will: it was used, its time is over, or the key was given back or
	// lost. If it is false and nothing was granted, the key was not handed on yet.
	Spent bool
}

// A Ticket is a token that nobody has: a key is handed on to it, and whoever knows it gets that.
type Ticket struct {
	Token  string        // made by NewTicket of a store with the same keys; a capability
	Lasts  time.Duration // of a Give: for how long it has the key
	Issuer int64         // the Number of the grant to the token that hands the key on
}

// A Ballot has the votes of a quorum's nodes. One that has neither Granted nor
// Refused nor Err was not cast.
type Ballot struct{ Votes []Vote }

// A Vote is one node's answer to an Acquire.
type Vote struct {
	Node    string // for people
	Granted bool
	Refused bool // another token holds the key
	Err     error
}

// News is that a waiter has the lock by a command that was not its own: a release, also
// one by force, or the command of a call that gave up or found the lock free.
type News struct {
	Ref Ref // TTL is the first TTL: what the waiter has until it renews
	Grant
}

// A Renewal asks to extend one held key to its full TTL. Renew fills in Held and Err: Err nil and Held false mean that the token does not hold the key.
type Renewal struct {
	Ref
	Held bool
	Err  error
}

// A Removal asks to take one token out of everything: what it has is given back, and it leaves the queue. Stay is as that of a Give.
// Remove fills in Err: nil means that the token has nothing there any more, except for the key if that stays taken.
type Removal struct {
	Ref
	Stay time.Duration
	Err  error
}

// A Give says how a token gives back what it has. Stay, Next and Ticket exclude each other, and so do Ticket and Record.
type Give struct {
	Ref

	// Until bounds the command, as that of a Request does.
	Until time.Time

	// Stay, if it is more than zero, keeps the key for so long, whatever was left of its TTL:
	// until then nobody else gets it.
	Stay time.Duration

	// Next, if it has a token, is offered the key: an exclusive waiter for it of the same store value, which
	// the store need not know yet and which gets its place. Whoever is first then has the key, for
	// its full TTL if that is Next. Only an exclusive holder offers, and only to a store that Queues.
	Next Waiter

	// Record, if not nil, is kept beside the key in the same step, if the token held it, exclusively. A store
	// that does not Queue keeps none.
	Record *Record

	// Ticket, if it has a token, has the key from then on for as long as it Lasts. The key does not come free, and all who wait keep their
	// places. Only an exclusive holder hands a key on, which tells its Fence, and only to a store that Queues.
	Ticket Ticket
}

// A Waiter is one who waits, and the place that it gets.
type Waiter struct {
	Ref
	Place Place
}

// Released says what Release did.
type Released uint8

const (
	// NotHeld: the token did not hold the key. Nothing was changed, apart
	// from a place in the queue that was given up.
	NotHeld Released = iota
	// Freed: the token held the key, which is free now.
	Freed
	// HandedOver: the token held the key, which now belongs to a waiter.
	HandedOver
	// HandedOn: the token held the key, or Give.Ticket has it already, which has it now.
	HandedOn
)

// A Listener is told about hand-overs, and about what becomes of locks that tokens of the
// store value hold. Its methods are called by Listen, and Granted also by Release, when
// the lock goes to a waiter of the same store value. They must not block.
type Listener interface {
	// Listening: hand-overs arrive from now on. Some may have been missed.
	Listening()
	// Granted: a waiter's token holds the key.
	Granted(News)
	// OthersWait: somebody of another store value waits for a key that token holds exclusively,
	// and came at came, on the clock of Grant.Clock. It is told again as long as it waits.
	OthersWait(key, token string, came int64)
	// Revoking: ForceRelease has taken the key from token, for by. Revoked follows. It does not come where by was
	// empty, or an older version has released.
	Revoking(key, token string, by Intervention)
	// Revoked: the key was taken from token, by ForceRelease.
	Revoked(key, token string)
}

// An Intervention says who has something done by hand, and why, in at most MostOfAuthor and MostOfReason bytes. Either may be empty.
type Intervention struct{ Author, Reason string }

// A SettingsListener is a Listener that is also told that settings may have changed.
type SettingsListener interface {
	Listener

	// SettingsChanged: somebody says that another value lies there, which need not be true. It is
	// called at the begin of Listen, too.
	SettingsChanged()
}

// An Inspector is the part of a Store that is for operators.
type Inspector interface {
	// Inspect tells who has a key, without touching it. ctx bounds it.
	Inspect(ctx context.Context, key string) (Info, error)

	// ForceRelease takes a key from whoever has it, as their release would,
	// and makes its next fence higher than theirs. They are told of by, if it is not empty. ctx bounds it.
	ForceRelease(ctx context.Context, key string, by Intervention) error

	// Health asks whether keys can be kept and had, whatever is known of that. An error
	// keeps it from working; advice is what should be mended all the same. ctx bounds it.
	Health(ctx context.Context) (advice []error, err error)

	// Names yields the names of the keys that begin with prefix and that somebody has, in
	// parts and in no order, until yield wants no more. Keys that come or go meanwhile may
	// be missing, and a name may come more than once. ctx ends it.
	Names(ctx context.Context, prefix string, yield func(names []string) bool) error

	// Begun yields names as Names does, of the keys beside which the intent of work that was begun lies, whether or
	// not somebody has the key. There may be names without an intent among them: Inspect knows. It is for a store that Queues.
	Begun(ctx context.Context, prefix string, yield func(names []string) bool) error

	// AnswersHealth asks whether the answers that are kept are safe where they are, for at most some seconds. facts are how it is, and
	// advice is what should be mended, or what cannot be told and Health does not say. Both are nil where no answer
	// is found. ctx ends it. It is for a store that Queues.
	AnswersHealth(ctx context.Context) (facts []string, advice []error)

	// Settings returns what operators have set for services, by name, and the store's clock at that, in µs
	// since 1970. ctx bounds it. It is for a store that Queues.
	Settings(ctx context.Context) (texts map[string]string, clock int64, err error)

	// Set puts text in the place of what is set under name, or with an empty text takes that away, and tells
	// those who Listen with a SettingsListener. It does so only if was is set there, of which an empty one stands for nothing; with nil,
	// whatever is. had is what was set there, or empty, and done says that text is there now. ctx bounds it. It is for a store that Queues.
	Set(ctx context.Context, name string, was *string, text string) (had string, done bool, err error)

	// Instance names this store value in Info.
	Instance() string
}

// A Store keeps locks.
type Store interface { //nolint:interfacebloat // an optional part would be lost behind a decorator
	// NewToken returns a token nobody else has, with at least 122 random bits. A note is a
	// text of its caller, of which Inspect tells the beginning.
	NewToken(note string) string

	// NewTicket returns a token as NewToken does, for a Ticket: no store value listens for messages about it. It is for a store that Queues.
	NewTicket(note string) string

	// Acquire asks for the key once. An error is an *Error; the key may then
	// be held by the token, or the token may stand in the queue, if it is
	// Ambiguous. It returns when ctx ends, see Request.Late.
	Acquire(ctx context.Context, r Request) (Answer, error)

	// Recall is an Acquire with a Recall that does not ask for the key. Its Answer has
	// a Recalled, or nothing but the Clock. With an Intent it is for the token that has the key exclusively, and Granted says that
	// the work is noted as begun; without a Recalled it is not, since the token does not have the key. It is for a store that Queues.
	Recall(ctx context.Context, r Request) (Answer, error)

	// Resolve puts record in the place of the intent of work that was begun under key, if nobody has the key. With
	// Undone the intent just goes. ctx bounds it. It is for a store that Queues.
	Resolve(ctx context.Context, key string, record Record) (Resolved, error)

	// TakesSeveral reports whether the store can take several keys in one step.
	TakesSeveral() bool

	// AcquireAll takes all keys or none in one step, each with its token and on the same
	// terms: if each has room and nobody waits for any. It returns the fences,
	// or nil if not all could be had, which leaves nothing behind. Errors, until, ctx and late are
	// as in Acquire. It is for a store that TakesSeveral.
	AcquireAll(ctx context.Context, refs []Ref, until time.Time, late func(granted bool, err error)) ([]int64, error)

	// Release gives back what the token has, as g says. A key that comes free
	// goes to the first live waiter. ctx may end it before g.Until.
	//
	// The Answer is that to Give.Next: whether it has the key, and the store's clock. When the
	// token did not hold the key, Next got no place by this call, unless Granted says that it has
	// the key already; it asks for itself then. An error that is Ambiguous leaves all that open.
	Release(ctx context.Context, g Give) (Released, Answer, error)

	// ReleaseAsync does what Release does, and returns as soon as the command is on its way. It is one
	// command that ends the matter by itself: once it has reached the store, it is carried out even if this process
	// has ended. told is called once with what Release would have returned, maybe before
	// ReleaseAsync returns, and must not block. soon says that somebody waits for that; otherwise it
	// may take some ms longer.
	//
	// Calls of Acquire, AcquireAll, Inspect, ForceRelease and Resolve for the key that begin after ReleaseAsync has returned are carried
	// out behind the release. Unless the store keeps the two in that order by itself, they wait, within their own time, until it is over: until
	// told has returned nil, or what told has returned is closed, because the caller tries again. It is for a store that Queues.
	ReleaseAsync(g Give, soon bool, told func(Released, Answer, error) (over <-chan struct{}))

	// Announce tells of a release of the key that ReleaseAsync is to send later. Calls that begin after Announce has
	// returned wait for it as for one that was sent, until over is called, which must be once. It is for a store that Queues.
	Announce(key string) (over func())

	// Remove carries out all removals in one exchange, bounded by ctx.
	Remove(ctx context.Context, batch []Removal)

	// Renew extends all of them in one exchange, bounded by ctx.
	Renew(ctx context.Context, batch []Renewal)

	// Listen reports hand-overs to h, and to a SettingsListener also changes of settings, always the same one, until ctx ends or the connection is no
	// longer alive, which it notices by itself within about a second. It
	// returns nil when the store has no hand-overs to tell, ever.
	Listen(ctx context.Context, h Listener) error

	// Queues reports whether the store has queues: whether waiters have places, are told of
	// hand-overs, and can be offered a key by a release (Give.Next).
	Queues() bool

	// Shadow returns a store of its own over the same servers, which the caller closes, for locks that have nothing to do
	// with those of this one: its keys begin otherwise, and what a user may do with the locks here, it may do with those there.
	// It does no I/O. It is for a store that Queues.
	Shadow() (Store, error)

	// Note notes that a call in shadow is at work, or was, and tells who else is. A work that goes on is noted again within
	// NoteEvery, or counts as over some seconds later. The locks that it looks at are those of the store by whose Shadow
	// this one was made, and it is for such a store. ctx bounds it. Noting the same again does no harm.
	Note(ctx context.Context, w Work) (Beside, error)

	// EvictionPolicy returns the maxmemory-policy of the servers, which decides whether
	// they may throw held locks away. ctx bounds it.
	EvictionPolicy(ctx context.Context) (string, error)

	Pinger
	Inspector

	// Close frees what the store owns, after every call has returned.
	Close() error
}

// A Pinger is the part of a Store that tells whether a server can be reached.
type Pinger interface {
	// Server names the server that answers for key, as far as that is known
	// without asking. It is empty where one server has all keys.
	Server(key string) string

	// Ping asks the server that answers for key whether it is there, over a
	// connection that nothing else uses. Where no such connection can be made, it
	// asks over those that commands take: the error is Unreachable only if these lead
	// nowhere, too. Any reply is nil, unless it is one that says that the server
	// cannot serve; otherwise the error is an *Error whose Evidence says what is known.
	// It returns when ctx ends.
	Ping(ctx context.Context, key string, p Progress) error
}

// A Progress is told how a ping gets on. Its functions are called from any
// goroutine, and maybe once more after the ping's return.
type Progress struct {
	// Heard is called whenever the server has said something while the ping was under
	// way, over whichever connection: also to another command, or while a connection is
	// set up.
	Heard func()

	// Waits is called whenever the ping begins to wait for something else: with true for
	// each answer of the server that must come (a connection takes several), and with
	// false for what is not the server, such as a credentials provider. Until the first
	// call the ping waits for the server.
	Waits func(server bool)
}
