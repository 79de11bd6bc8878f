package lockmw

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A holderText is a Holder in JSON.
type holderText struct {
	Instance string `json:"instance,omitempty"`
	Note     string `json:"note,omitempty"`
	Age      string `json:"age,omitempty"`
	Left     string `json:"left,omitempty"` // empty: there is no TTL

	CoolingDown bool `json:"cooling_down,omitempty"`
	HandedOn    bool `json:"handed_on,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (h Holder) MarshalJSON() ([]byte, error) {
	text := holderText{Instance: h.Instance, Note: h.Note, CoolingDown: h.CoolingDown, HandedOn: h.HandedOn}
	if h.Age > 0 {
		text.Age = h.Age.String()
	}
	if h.Left >= 0 {
		text.Left = h.Left.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes. If Left is missing, there is no TTL.
func (h *Holder) UnmarshalJSON(b []byte) error {
	var text holderText
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("lockmw: holder: %w", err)
	}
	read := Holder{Instance: text.Instance, Note: text.Note, Left: -1, CoolingDown: text.CoolingDown, HandedOn: text.HandedOn}
	for _, d := range []struct {
		name, from string
		to         *time.Duration
	}{{"age", text.Age, &read.Age}, {"left", text.Left, &read.Left}} {
		if d.from == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.from); err != nil {
			return fmt.Errorf("lockmw: holder: %s: %w", d.name, err)
		}
	}
	*h = read
	return nil
}

// A waiterText is a Waiter in JSON.
type waiterText struct {
	Instance string `json:"instance,omitempty"`
	Note     string `json:"note,omitempty"`
	Mode     Mode   `json:"mode"`
	Permits  int    `json:"permits,omitzero"`
	Waited   string `json:"waited,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (w Waiter) MarshalJSON() ([]byte, error) {
	text := waiterText{Instance: w.Instance, Note: w.Note, Mode: w.Mode, Permits: w.Permits}
	if w.Waited > 0 {
		text.Waited = w.Waited.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Waiter) UnmarshalJSON(b []byte) error {
	var text waiterText
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("lockmw: waiter: %w", err)
	}
	read := Waiter{Instance: text.Instance, Note: text.Note, Mode: text.Mode, Permits: text.Permits}
	if text.Waited != "" {
		var err error
		if read.Waited, err = time.ParseDuration(text.Waited); err != nil {
			return fmt.Errorf("lockmw: waiter: waited: %w", err)
		}
	}
	*w = read
	return nil
}

// Instance returns the name by which Info and AcquireError.Holder call this Locker: the text of
// WithInstance, and what New has added to it. The name is no secret: nothing can be released with
// it.
func (l *Locker) Instance() string { return l.store.Instance() }

// Inspect tells who has the lock called key, who waits for it, and whether an answer of Do is kept
// for it. key includes the prefix. A lock that nobody has is no error. On a quorum Inspect tells
// what a majority agrees on. The answer is true for one moment: base no decision of a program on
// it. Inspect takes a second at most, and ends with ctx. The error Is ErrInvalidKey, ErrClosed or
// ErrUnavailable.
func (l *Locker) Inspect(ctx context.Context, key string) (Info, error) {
	i := Info{Key: key}
	err := l.operate(ctx, "inspect", key, func(ctx context.Context) (err error) {
		i, err = l.inspect(ctx, key)
		return err
	})
	return i, err
}

// inspect asks who has a lock. The call is counted in. An error is the store's.
func (l *Locker) inspect(ctx context.Context, key string) (Info, error) {
	got, err := l.store.Inspect(ctx, key)
	i := Info{Key: key, CoolingDown: len(got.Holders) > 0, Permits: got.Kind.Permits, Waiting: got.Waiting + l.waiters.Resting(key)}
	i.Mode = modeOf(got.Kind)
	for _, h := range got.Holders {
		i.Holders = append(i.Holders, Holder(h))
		i.Held = i.Held || !h.CoolingDown
	}
	for _, q := range got.Queue {
		i.Waiters = append(i.Waiters, Waiter{q.Instance, q.Note, modeOf(q.Kind), q.Kind.Permits, q.Waited})
	}
	i.CoolingDown = i.CoolingDown && !i.Held
	i.Answer = answerOf(got.Answer, len(i.Holders) > 0)
	return i, err
}

func modeOf(k store.Kind) Mode {
	if k.Shared {
		return Shared
	}
	return Exclusive
}

// ForceRelease takes the lock called key from all who have it, and gives it to the next waiters.
// key includes the prefix. It is for operators: the former holder works on, beside the next one,
// until it learns that the lock is lost. A message tells it at once, if its process hears messages
// (Stats.Subscribed): from its first call that may wait, or from New on with SettingsInRedis.
// Otherwise, or if the message is lost, its next renewal tells it, within 11 s if its TTL is 30 s.
// The next fence is higher than its own, so a resource that checks fences refuses its writes. A
// lock that nobody has is no error. ForceRelease takes about a second at most, and ends with ctx.
// The error Is ErrInvalidKey, ErrClosed or ErrUnavailable.
//
// ForceReleaseAs also tells the holder who has taken the lock, and why.
func (l *Locker) ForceRelease(ctx context.Context, key string) error {
	return l.ForceReleaseAs(ctx, key, Intervention{})
}

// ForceReleaseAs is ForceRelease on behalf of somebody, and for a reason. Observers
// (EventForceReleased) and the log of this Locker are told both. If the message arrives, the former
// holder is told both as well: they are in its log, in its EventLost, and in the cause of its
// lease's context, a *RevokedError. A former holder with an older version of lockmw learns that the
// lock is lost, but not why.
//
// If a text of by is too long or cannot be printed, the error Is ErrInvalidPolicy, and nothing was
// released. Otherwise the error is that of ForceRelease.
func (l *Locker) ForceReleaseAs(ctx context.Context, key string, by Intervention) error {
	if err := by.validate(); err != nil {
		return fmt.Errorf("lockmw: force release %q: %w", key, err)
	}
	var own []*tenure
	err := l.operate(ctx, "force release", key, func(ctx context.Context) error {
		own = l.tenuresOf(key)
		return l.store.ForceRelease(ctx, key, store.Intervention(by))
	})
	if err == nil {
		l.intervened(Event{Kind: EventForceReleased, Key: key, Intervention: by}, "lockmw: lock was released by force")
		for _, t := range own { // granted before the command was sent, so the command has ended it
			t.lostInStore(&RevokedError{by})
		}
		l.renewNow(key) // one that was granted since may have been ended, too: it is told at once
		l.waiters.AskFirst(key)
		l.tell(ctx, Event{Kind: EventForceReleased, Key: key, Intervention: by})
	}
	return err
}

// operatorTimeout bounds an operator's command. The store's own bound, opTimeout, comes
// first, because its error says what there was no answer to.
const operatorTimeout = opTimeout + opTimeout/10

// operate sends an operator's command about key.
func (l *Locker) operate(ctx context.Context, what, key string, ask func(context.Context) error) error {
	if err := validateName(key); err != nil {
		return fmt.Errorf("lockmw: %s %q: %w", what, key, err)
	}
	led := l.enter(key)
	if led == nil {
		return fmt.Errorf("lockmw: %s %q: %w", what, key, ErrClosed)
	}
	defer led.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	if err := ask(ctx); err != nil {
		return fmt.Errorf("lockmw: %s %q: %w: %w", what, key, ErrUnavailable, store.AsError(err).Err)
	}
	return nil
}

// listAtOnce is how many locks List looks at at the same time.
const listAtOnce = 32

// List tells of all locks whose keys, the prefix included, begin with prefix: who has them, and who
// waits, as Inspect does. The empty prefix finds all locks. They come in no order, each once. A
// lock that comes or goes meanwhile may be missing. List is for operators: Redis looks at all its
// keys for it, a thousand in each step (SCAN), so that no other command waits for long.
//
// An error is the last thing that comes. If a master of a Cluster is away, only its own locks are
// missing, and the error comes after the locks of the others. The error Is ErrClosed or
// ErrUnavailable, or what ended ctx. Several Lists may run at the same time. Close ends a List that
// is under way, but does not wait for what the caller's loop does with a lock.
func (l *Locker) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return l.list(ctx, prefix, l.store.Names, func(i Info) bool { return len(i.Holders) > 0 || i.Waiting > 0 })
}

// ListUncertain tells of all uncertain work whose keys, the prefix included, begin with prefix.
// Such work was begun with Uncertain, has no answer, and nobody has its lock. Do is refused with
// ErrUncertain until Resolve says what became of the work, or UncertainFor is over. The Info is
// that of Inspect: its Answer has the id of the work, for Resolve, and when the work was begun.
// Work whose lock somebody has at that moment is left out, because it may be in progress.
//
// The order, what may be missing, the errors, and Close are as for List. Redis looks at all its
// keys for it as well, and also reads each answer that is kept. On a quorum, which keeps no
// answers, the error Is ErrInvalidPolicy.
func (l *Locker) ListUncertain(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	if l.quorum {
		return func(yield func(Info, error) bool) {
			yield(Info{}, badPolicy("ListUncertain", "a quorum keeps no answers"))
		}
	}
	return l.list(ctx, prefix, l.store.Begun, func(i Info) bool { return i.Answer != nil && i.Answer.State == AnswerUncertain })
}

// list yields what Inspect tells of the locks whose names the store finds, as far as they are wanted.
func (l *Locker) list(
	ctx context.Context, prefix string, find func(context.Context, string, func(names []string) bool) error, wants func(Info) bool,
) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		counted := l.enter(prefix)
		if counted == nil {
			yield(Info{}, fmt.Errorf("lockmw: list: %w", ErrClosed))
			return
		}
		defer func() {
			if counted != nil {
				counted.calls.Done()
			}
		}()
		ctx, end := l.untilClosed(ctx)
		defer end()
		// The caller's loop may stand still, or call Close itself: it is not counted in.
		told := func(info Info, err error) bool {
			counted.calls.Done()
			counted = nil
			if !yield(info, err) || err != nil {
				return false
			}
			if counted = l.enter(prefix); counted == nil {
				yield(Info{}, fmt.Errorf("lockmw: list: %w", ErrClosed))
			}
			return counted != nil
		}
		seen, wanted := make(map[string]struct{}), true
		err := find(ctx, prefix, func(names []string) bool {
			var unseen []string
			for _, name := range names {
				if _, twice := seen[name]; !twice {
					seen[name] = struct{}{}
					unseen = append(unseen, name)
				}
			}
			for len(unseen) > 0 && wanted {
				n := min(listAtOnce, len(unseen))
				wanted = l.listSome(ctx, unseen[:n], wants, told)
				unseen = unseen[n:]
			}
			return wanted
		})
		if err != nil && wanted {
			told(Info{}, notListed(ctx, err))
		}
	}
}

// untilClosed returns a context that ends with ctx, and with ErrClosed when Close begins.
func (l *Locker) untilClosed(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// notListed is what List says of an error of the store.
func notListed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("lockmw: list: %w", context.Cause(ctx))
	}
	return fmt.Errorf("lockmw: list: %w: %w", ErrUnavailable, store.AsError(err).Err)
}

// listSome yields what Inspect tells of some locks, as far as they are wanted, and reports whether the caller goes on.
func (l *Locker) listSome(ctx context.Context, names []string, wants func(Info) bool, yield func(Info, error) bool) bool {
	infos, errs := make([]Info, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
			defer cancel()
			infos[i], errs[i] = l.inspect(ctx, name)
		})
	}
	asking.Wait()
	for i, info := range infos {
		switch {
		case errs[i] != nil && store.AsError(errs[i]).Foreign: // what lies there is no lock
		case errs[i] != nil:
			yield(Info{}, notListed(ctx, errs[i]))
			return false
		case !wants(info): // it was given back, or resolved, meanwhile
		case !yield(info, nil):
			return false
		}
	}
	return true
}

// Stats returns the Locker's numbers as they are now. It sends nothing to Redis. It looks at every
// lease and every call that waits, but not at all of them in one moment. It is safe for concurrent
// use, and may be called after Close.
func (l *Locker) Stats() Stats {
	s := Stats{
		Names:      make(map[string]NameStats),
		Connected:  !l.outage.Troubled(),
		Subscribed: l.subscriber.session() != 0,
		Settings:   l.settings.stats(),
	}
	for name, n := range l.waiters.CountByName() {
		s.Names[name] = NameStats{Waiting: n}
	}
	for led := range l.ledgers.All() {
		led.mu.Lock()
		leases := slices.Collect(maps.Keys(led.leases))
		led.mu.Unlock()
		for _, lease := range leases {
			if lease.tenure() != nil {
				of := s.Names[lease.policy.Name]
				of.Held++
				s.Names[lease.policy.Name] = of
			}
		}
	}
	s.MoreShadow = l.shadows.count(s.Names)
	return s
}
