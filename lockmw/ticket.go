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

// Ticket returns a ticket for the lock, with which Locker.Resume goes on with the work in this process or in another one: the ticket is for
// a job that is queued under the lock. Nothing is sent. Release, then, does not give the lock back but hands it on to the ticket, whose it
// is for at most lasts; those who wait go on waiting, in their order. Work that fails voids the ticket: MarkFailed, an error or a panic
// under WithLock or Wrap, an answer with 400 or more in a middleware, or Close, where it takes the lock from the work. The lock is
// given back then, as without a ticket. So queue the job in the work's own transaction, and a worker that is early waits.
//
// Whoever has a ticket can take the lock, once: it is no text for a client or a log. It is as long as the key, the namespace and the note (WithNote)
// want it: up to some 2 KiB, of letters, digits and the characters "-", "_" and ".".
//
// If Release returns ErrUnavailable, nobody knows whether the lock was handed on. It is taken from the ticket in the background then, unless
// somebody has resumed before: a job that is not queued yet should go without the ticket, and for any other Resume returns ErrTicketSpent.
// If it returns ErrLost, the ticket is spent.
//
// A later call returns the same ticket, and its lasts counts; one that is void is not followed by another. Ticket is safe for concurrent use. At least 100 ms are wanted.
//
// Ticket always returns a text, so that it fits where the job is made. Where this lease cannot be handed on, Resume, Discard and CheckTicket
// say why: their error Is ErrInvalidTicket then, and the log has it at once. That is so for a policy with MinHold, Permits, AsyncRelease or Mode: Shared,
// on a quorum, for a lease of several keys or of Do, and for one that has joined another one (Reentrant), which has no lock of its own. A lease that holds no
// lock, since its policy is in shadow or failed open, since a setting says off, or since it has ended, has none to hand on: the error Is ErrTicketSpent
// as well, and the job asks for the lock by itself, as after any ticket that is spent. That is also what becomes of a ticket if a nested
// call joins the lease by a policy with MinHold.
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
	if l.state != held && l.state != overHeld || l.ticket.void {
		return ticketText{}, false
	}
	if l.ticket.Token == "" {
		l.ticket.Token, l.ticket.Issuer = fresh, l.tenure().first.Number()
	}
	l.ticket.Lasts = lasts
	return ticketText{l.locker.namespace, l.ref.Key, l.ticket.Token, l.ticket.Issuer}, true
}

// A handing is the ticket that a lease's release hands the lock on to; without a Token none was issued.
type handing struct {
	store.Ticket
	void bool // the lock is given back, whatever is issued
}

// voidTicket has the release give the lock back, and not hand it on.
func (l *Lease) voidTicket() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != released {
		l.ticket = handing{void: true}
	}
}

// voidTicket is that of the tenure's lease whose ticket has that token. It reports false if there is none, or its release has begun.
func (t *tenure) voidTicket(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.holder
	if l == nil || l.ticket.Token != token || l.state != held && l.state != overHeld {
		return false
	}
	l.ticket = handing{void: true}
	return true
}

// CheckTicket returns nil if ticket is one as Lease.Ticket issues it, of whichever namespace. It asks nobody, so whether the ticket is spent it does
// not say. Otherwise the error Is ErrInvalidTicket: the text is no ticket or not all of one, or Lease.Ticket could not issue one, and
// the error says why. If that was because the lease had no lock, it Is ErrTicketSpent as well.
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

// readTicket reads a ticket. The error is that of CheckTicket.
func readTicket(ticket string) (t ticketText, err error) {
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
	if t.issuer, err = strconv.ParseInt(parts[3], 10, 64); err != nil {
		return t, fmt.Errorf("%w: %w", ErrInvalidTicket, errors.Unwrap(err))
	}
	return t, nil
}
