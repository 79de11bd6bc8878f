package lockmw

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Work that goes on elsewhere: a lease issues a ticket (Lease.Ticket), and its release hands the lock on to that, in the place of giving it
// back (tenure.giveBack, in release.go). Whoever has the ticket goes on under the lock, once (Locker.Resume, in resume.go), or lets it
// go (Locker.Discard).
//
// Nothing is sent when a ticket is issued. So there is no moment at which the lock is the ticket's and nobody has been told of the ticket: the job
// is queued first. What becomes of a ticket:
//
//	issued ── the work failed, or its lock was lost ────────────────────► spent
//	   │
//	   │ Release
//	   ▼
//	handed on ── Resume ──► a lease of its own
//	   └──────── Discard, or its time is over ──────────────────────────► spent

// Ticket returns a ticket for the lock. With it, Locker.Resume goes on with the work, in this process or in another one: the ticket is for a job that
// is queued under the lock. Nothing is sent to Redis. Release, then, does not give the lock back but hands it on to the ticket. From the release on
// the ticket has the lock for lasts (100 ms to ten years), unless somebody goes on before. (It is longer where the lease's fence is ahead of Redis's
// clock: until a second after the clock has passed the fence. That is up to some 3 s after a release by force, and as long as the clock was set
// back where it was.) Those who wait go on waiting, in their order.
//
// Work that fails voids the ticket: the lock is then given back, as without a ticket. Work has failed after MarkFailed, after an error or a panic
// under WithLock or Wrap, after a status of 400 or more in a middleware or any status but OK in an interceptor, and if Close takes the lock from the
// work. So queue the job in the work's own transaction. A worker that is early waits.
//
// Whoever has a ticket can take the lock, once: keep it out of logs, and do not send it to a client. A ticket is as long as the key, the namespace
// and the note (WithNote) make it, up to some 2 KiB. It has only letters, digits and the characters "-", "_" and ".".
//
// If Release returns ErrUnavailable, nobody knows whether the lock was handed on. It is then taken from the ticket in the background, unless somebody
// has resumed before. If the job is not queued yet, queue it without the ticket. If it is, its Resume goes on if the lock was handed on and is not taken
// back yet, and otherwise returns ErrTicketSpent. If Release returns ErrLost, the ticket is spent.
//
// A later call returns the same ticket, and its lasts counts. Once the ticket is void, there is no other one. Ticket is safe for concurrent use.
//
// Ticket always returns a text, so that it can be called where the job is made. If this lease cannot be handed on, Resume, Discard and CheckTicket
// say why: their error Is ErrInvalidTicket. The log says it when Ticket is called, at most once a second for each name. This is so
//
//   - for a policy with MinHold, Permits, AsyncRelease or Mode: Shared, and on a quorum;
//   - for a lease of several keys, and for a lease of Do;
//   - for a lease that has joined another one (Reentrant), because it has no lock of its own;
//   - if lasts is too short or too long.
//
// A lease that has no lock has none to hand on: its policy is in shadow or failed open, a setting says off, or it has ended. Then the error Is
// ErrTicketSpent as well, Discard returns nil, and the log says nothing. The job asks for the lock by itself, as after any ticket that is spent. A
// ticket is also spent if a nested call has joined the lease by a policy whose MinHold is not over at the release.
func (l *Lease) Ticket(lasts time.Duration) string {
	if l == nil {
		return noTicket("there is no lease", true)
	}
	reason, without := l.notHandedOn(lasts)
	if reason == "" {
		if t, ok := l.issue(lasts); ok {
			return t.String()
		}
		reason, without = "the lease had ended, its lock was lost, or its work had failed, when the ticket was asked for", true
	}
	if !without {
		l.locker.logSeldom(slog.LevelError, "no ticket", l.policy.Name,
			"lockmw: this lease cannot be handed on, so its ticket is none: Resume returns ErrInvalidTicket", slog.String("reason", reason))
	}
	return noTicket(reason, without)
}

// notHandedOn says why the lease's lock cannot be handed on; without says that this is so because it has none. It is empty if it can.
func (l *Lease) notHandedOn(lasts time.Duration) (reason string, without bool) {
	switch {
	case lasts < minTTL:
		return fmt.Sprintf("it was to last %v, and at least %v are wanted: is the unit missing?", lasts, minTTL), false
	case lasts > longestTTL:
		return fmt.Sprintf("it was to last %v, which is more than ten years", lasts), false
	case l.policy.Mode == Shared:
		return "the policy has Mode: Shared, and a ticket is for one holder", false
	case l.policy.Permits > 0:
		return "the policy has Permits, and a ticket is for one holder", false
	case l.policy.MinHold > 0:
		return "the policy has MinHold, which counts from when the lock was acquired: it cannot outlast the ticket", false
	case l.policy.AsyncRelease:
		return "the policy has AsyncRelease, and nobody would know whether the lock was handed on", false
	case l.forAnswer:
		return "it is the lease of Do, which has an answer to keep with its release", false
	case !l.locker.store.Queues():
		return "a quorum hands no lock on", false
	}
	switch l.has.(type) {
	case joined:
		return "the lease has joined another one (Reentrant), and has no lock of its own: take a ticket of that one", false
	case *bundle:
		return "the lease has several keys, and a ticket is for one", false
	case *shadow:
		return "the policy is in shadow, so the lease has no lock", true
	case nothing:
		return "the lease runs without its lock (FailOpen, or a setting says off)", true
	}
	return "", false
}

// issue has the lease's release hand the lock on. It reports false if the lease has ended, or its ticket is void.
func (l *Lease) issue(lasts time.Duration) (ticketText, bool) {
	fresh := l.locker.store.NewTicket(l.note)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.handing()
	if l.state != held && l.state != overHeld || h.void {
		return ticketText{}, false
	}
	if h.Token == "" {
		h.Token, h.Issuer = fresh, l.tenure().first.Number()
	}
	h.Lasts = lasts
	l.ticket = &h
	return ticketText{l.locker.namespace, l.ref.Key, h.Token, h.Issuer}, true
}

// A handing is the ticket that a lease's release hands the lock on to; without a Token none was issued.
type handing struct {
	store.Ticket
	void   bool // the lock is given back, whatever is issued
	issued bool // one was, before it was made void: it is to find that the issuer's grant is over
	done   bool // the release has handed the lock on
}

// handing is the lease's. The caller holds mu, or the lease was released: then it does not change any more, but for done.
func (l *Lease) handing() handing {
	if l.ticket == nil {
		return handing{}
	}
	return *l.ticket
}

// voidTicket has the release give the lock back, and not hand it on.
func (l *Lease) voidTicket() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != released {
		h := l.handing()
		l.ticket = &handing{void: true, issued: h.issued || h.Token != ""}
	}
}

// voidTicket is that of the tenure's lease whose ticket has that token. It reports false if there is none, or its release has begun.
func (t *tenure) voidTicket(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.holder
	if l == nil || l.handing().Token != token || l.state != held && l.state != overHeld {
		return false
	}
	l.ticket = &handing{void: true, issued: true}
	return true
}

// CheckTicket returns nil if ticket is a whole ticket as Lease.Ticket issues it, of whichever namespace. It asks nobody, so it does not say whether
// the ticket is spent. Otherwise the error Is ErrInvalidTicket, and says why: the text is no ticket, or not all of one, or Lease.Ticket could not
// issue one. If that was because the lease had no lock, the error Is ErrTicketSpent as well.
func CheckTicket(ticket string) error {
	_, err := readTicket(ticket)
	return err
}

// A ticketText is what a ticket says.
type ticketText struct {
	namespace string // of the Locker that has issued it
	key       string // of the lock, with its prefix
	token     string // the ticket's
	issuer    int64  // what names the grant of the issuer's token in the lock's value, see store.Ticket
}

// The beginnings of tickets, and of what Lease.Ticket returns in the place of one. The number is that of the form.
const (
	ticketBegins = "lockmw1."
	noTicketIs   = "lockmw0.no ticket: "
	noLockIs     = "lockmw0.no lock, no ticket: "
)

// String returns the ticket. What it says has no line breaks in it, since keys and namespaces have no control characters; keys may be any other
// bytes. The sum finds a ticket that was cut off, as by a column of a table that is too short.
func (t ticketText) String() string {
	said := strings.Join([]string{t.namespace, t.key, t.token, strconv.FormatInt(t.issuer, 10)}, "\n")
	return ticketBegins + base64.RawURLEncoding.EncodeToString([]byte(said)) + "." + strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(said))), 36)
}

func noTicket(reason string, without bool) string {
	if without {
		return noLockIs + reason
	}
	return noTicketIs + reason
}

// mostTicket is more than any ticket has: what somebody sends in the place of one does not go whole into errors.
const mostTicket = 4 << 10

// readTicket reads a ticket. The error is that of CheckTicket.
func readTicket(ticket string) (t ticketText, err error) {
	if len(ticket) > mostTicket {
		return t, fmt.Errorf("%w: it has %d bytes, and no ticket has more than %d", ErrInvalidTicket, len(ticket), mostTicket)
	}
	if reason, none := strings.CutPrefix(ticket, noLockIs); none {
		return t, fmt.Errorf("%w: none was issued: %s: %w", ErrInvalidTicket, reason, ErrTicketSpent)
	}
	if reason, none := strings.CutPrefix(ticket, noTicketIs); none {
		return t, fmt.Errorf("%w: none was issued: %s", ErrInvalidTicket, reason)
	}
	encoded, ours := strings.CutPrefix(ticket, ticketBegins)
	if !ours {
		return t, fmt.Errorf("%w: it does not begin as one", ErrInvalidTicket)
	}
	encoded, sum, _ := strings.Cut(encoded, ".")
	said, err := base64.RawURLEncoding.DecodeString(encoded)
	parts := strings.Split(string(said), "\n")
	if err != nil || len(parts) != 4 || sum != strconv.FormatUint(uint64(crc32.ChecksumIEEE(said)), 36) {
		return t, fmt.Errorf("%w: not all of it is there, or it was changed: it has %d bytes", ErrInvalidTicket, len(ticket))
	}
	t = ticketText{namespace: parts[0], key: parts[1], token: parts[2]}
	if t.token == "" { // which would be the ticket of each lease that has issued none
		return t, fmt.Errorf("%w: it has no token", ErrInvalidTicket)
	}
	if t.issuer, err = strconv.ParseInt(parts[3], 10, 64); err != nil {
		return t, fmt.Errorf("%w: %w", ErrInvalidTicket, errors.Unwrap(err))
	}
	return t, nil
}
