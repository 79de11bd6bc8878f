package redisstore

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/older"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Each older script about a key that cools down, of each kind, does what it did, and leaves no trace that these misread; and
// what an older one has left is what it was to these.
func TestOlderScriptsShareAKeyThatCoolsDown(t *testing.T) {
	texts := older.BeforeCoolDown()
	kinds := []store.Kind{{}, {Shared: true}, {Permits: 1}}
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		var keys []string
		for _, key := range p.keys("k") {
			keys = append(keys, key)
		}
		old := func(script string, args ...any) any {
			t.Helper()
			got, err := redis.NewScript(texts[script]).Run(context.Background(), client, keys, args...).Result()
			if err != nil {
				t.Fatalf("the older %s: %v", script, err)
			}
			return got
		}
		refused := func(got any) bool { list, ok := got.([]any); return ok && list[0] == int64(0) }
		for _, has := range kinds {
			for _, next := range kinds {
				r := p.ref(time.Minute)
				r.Kind = has
				noteGrant(&r, p.get(r, store.Try))
				if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: 30 * time.Second}); did != store.Freed || err != nil {
					t.Fatalf("%+v: Release that stays = %v, %v", has, did, err)
				}
				asks := other.ref(time.Minute)
				asks.Kind = next
				isReader := has.Shared && next.Shared
				for _, join := range []string{"try", "wait", "last"} {
					if isReader {
						continue // it may come in
					}
					if got := old("acquire", asks.Token, terms(asks), join, "p"+p.channels); !refused(got) {
						t.Errorf("%+v, then %+v: the older acquire (%s) = %v, want a refusal", has, next, join, got)
					}
				}
				if got := old("inspect"); got.([]any)[0] == "" {
					t.Errorf("%+v: the older inspect = %v, want a holder", has, got)
				}
				if got := old("all", terms(asks), asks.Token); !isReader && !refused(got) {
					t.Errorf("%+v, then %+v: the older all = %v, want a refusal", has, next, got)
				} else if isReader {
					old("release", asks.Token, p.channels, "")
				}
				if !other.refused(other.ref(time.Minute), store.Try).CoolingDown {
					t.Errorf("%+v: it does not cool down any more after the older scripts have looked", has)
				}
				// Asked again by an older one, as a release whose reply was lost; and a renewal that comes late.
				if got := old("release", r.Token, p.channels, "", "", "30000"); got != int64(1) {
					t.Errorf("%+v: the older release that stays = %v, want 1", has, got)
				}
				if got := old("renew", r.Token, terms(r), ""); got != int64(1) {
					t.Errorf("%+v: the older renew = %v, want 1", has, got)
				}
				if got := old("force", p.channels); got != int64(1) {
					t.Errorf("%+v: the older force = %v, want 1", has, got)
				}
				if got := old("acquire", asks.Token, terms(asks), "try", "p"+p.channels); refused(got) {
					t.Errorf("%+v, then %+v: the older acquire after the cool-down = %v, want a grant", has, next, got)
				}
				if other.refused(other.ref(time.Minute), store.Try).CoolingDown {
					t.Errorf("%+v, then %+v: the next holder seems to cool down", has, next)
				}
				// And the other way round: an older release that stays is held, as it was, to these.
				if got := old("release", asks.Token, p.channels, "", "", "30000"); got != int64(1) {
					t.Errorf("%+v: the older release that stays = %v, want 1", next, got)
				}
				if other.refused(other.ref(time.Minute), store.Try).CoolingDown {
					t.Errorf("%+v: a cool-down that the older release did not note is told", next)
				}
				if did, _, err := other.Release(t.Context(), store.Give{Ref: asks, Stay: 10 * time.Second}); did != store.Freed || err != nil {
					t.Errorf("%+v: Release that stays behind an older one = %v, %v", next, did, err)
				}
				if err := p.ForceRelease(t.Context(), "k", store.Intervention{}); err != nil {
					t.Fatal(err)
				}
				if n := client.Exists(t.Context(), keys[0], keys[1], keys[4]).Val(); n != 0 {
					t.Errorf("%+v, then %+v: %d keys are left", has, next, n)
				}
				client.Del(t.Context(), keys...)
			}
		}
	})
}

// The older releaseto, and give, which is the same in both versions, find what these have taken or let cool down, and leave
// what these find; these do the same behind the older acquire.
func TestOlderScriptsPassOnWhatTheseHaveTaken(t *testing.T) {
	texts := older.BeforeCoolDown()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for name, take := range map[string]func(p *probe, client *redis.Client) store.Ref{
			"by a script": func(p *probe, _ *redis.Client) store.Ref {
				r := p.ref(time.Minute)
				noteGrant(&r, p.get(r, store.Try))
				return r
			},
			"by SET": func(p *probe, client *redis.Client) store.Ref { return p.took(client) },
		} {
			for _, cools := range []bool{false, true} {
				client, ns := s.Client(t), redistest.Prefix(t)
				p, other := open(t, client, ns), open(t, client, ns)
				old := func(script string, args ...any) any {
					t.Helper()
					keys := p.keys("k")
					got, err := redis.NewScript(texts[script]).Run(t.Context(), client, keys[:], args...).Result()
					if err != nil {
						t.Fatalf("the older %s: %v", script, err)
					}
					return got
				}
				p.release(p.take(), false, store.Freed) // now it knows the server and its clock
				r, next := take(p, client), p.ref(time.Minute)
				if cools {
					if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: 30 * time.Second}); did != store.Freed || err != nil {
						t.Fatalf("%s: Release that stays = %v, %v", name, did, err)
					}
				}
				old("releaseto", r.Token, next.Token, terms(next), "p"+p.channels, 0, 0, r.Fence)
				if a := other.refused(other.ref(time.Minute), store.Try); a.CoolingDown {
					t.Errorf("%s (cools %v): the one that the older releaseto has passed it on to seems to cool down", name, cools)
				}
				a := p.get(next, store.Wait)
				if a.Fence <= r.Fence {
					t.Errorf("%s (cools %v): fence %d after %d, want a higher one", name, cools, a.Fence, r.Fence)
				}
				noteGrant(&next, a)
				p.renew(next, true)
				p.release(r, false, store.NotHeld)
				p.release(next, false, store.Freed)

				r, next = take(p, client), other.ref(time.Minute)
				old("acquire", next.Token, terms(next), "wait", "p"+p.channels)
				p.release(r, false, store.HandedOver) // where SET took it, give finds the mark of one who waits
				a = other.get(next, store.Wait)
				if a.Fence <= r.Fence {
					t.Errorf("%s: fence %d behind the older acquire after %d, want a higher one", name, a.Fence, r.Fence)
				}
				if got := old("release", next.Token, p.channels, ""); got != int64(1) {
					t.Errorf("%s: the older release = %v, want 1", name, got)
				}
				other.release(other.take(), false, store.Freed)
			}
		}
	})
}

// The scripts of an earlier version take a ticket for a holder that is never renewed: they keep others out, tell of it, take it by force
// and remove it, and what they have left is no matter to these.
func TestOlderScriptsShareALockThatWasHandedOn(t *testing.T) {
	texts := older.BeforeCoolDown()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		var keys []string
		for _, key := range p.keys("k") {
			keys = append(keys, key)
		}
		old := func(script string, args ...any) any {
			t.Helper()
			got, err := redis.NewScript(texts[script]).Run(context.Background(), client, keys, args...).Result()
			if err != nil {
				t.Fatalf("the older %s: %v", script, err)
			}
			return got
		}
		handOn := func() (ticket store.Ticket) {
			t.Helper()
			r := p.ref(time.Minute)
			granted := p.get(r, store.Try)
			noteGrant(&r, granted)
			ticket = store.Ticket{Token: p.NewTicket("a note"), Lasts: time.Minute, Issuer: granted.Number()}
			if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Ticket: ticket}); did != store.HandedOn || err != nil {
				t.Fatalf("Release to a ticket = %v, %v", did, err)
			}
			return ticket
		}
		resume := func(ticket store.Ticket) store.Answer {
			t.Helper()
			r := other.ref(time.Minute)
			a, err := other.Acquire(t.Context(), store.Request{Ref: r, Ticket: &ticket})
			if err != nil {
				t.Fatal(err)
			}
			if a.Granted {
				r.Fence = a.Fence
				if did, _, err := other.Release(t.Context(), store.Give{Ref: r}); did == store.NotHeld || err != nil {
					t.Fatalf("Release behind the ticket = %v, %v", did, err)
				}
			}
			return a
		}
		asks := other.ref(time.Minute)
		for _, join := range []string{"try", "wait", "last"} {
			ticket := handOn()
			if got, _ := old("acquire", asks.Token, terms(asks), join, "p"+p.channels).([]any); len(got) == 0 || got[0] != int64(0) {
				t.Errorf("the older acquire (%s) = %v, want a refusal", join, got)
			}
			if got := old("renew", asks.Token, terms(asks), ""); got != int64(0) {
				t.Errorf("the older renew of another = %v, want 0", got)
			}
			if got := resume(ticket); !got.Granted {
				t.Errorf("behind the older acquire (%s) the ticket is spent: %v", join, got.Spent)
			}
			old("release", asks.Token, p.channels, "", terms(asks))
		}
		ticket := handOn()
		if got, _ := old("all", terms(asks), asks.Token).([]any); len(got) == 0 || got[0] != int64(0) {
			t.Errorf("the older all = %v, want a refusal", got)
		}
		value, _ := old("inspect").([]any)[0].(string)
		token, _, _ := strings.Cut(value, ":")
		if instance, note := readToken(token); instance != "ticket,"+p.Instance() || note != "a note" { // as an older Locker reads it
			t.Errorf("by the older inspect %q has the lock, with the note %q", instance, note)
		}
		if got := old("force", p.channels); got != int64(1) {
			t.Errorf("the older force = %v, want 1", got)
		}
		if got := resume(ticket); !got.Spent {
			t.Error("a ticket whose lock was taken by force is not spent")
		}
		ticket = handOn()
		if got := old("release", ticket.Token, p.channels, ""); got != int64(1) {
			t.Errorf("the older release of the ticket = %v, want 1", got)
		}
		if got := resume(ticket); !got.Spent {
			t.Error("a ticket that was removed is not spent")
		}
	})
}

// Older scripts and calls of Do share a queue. Each finds there whom the other has put there, in their order. An answer beside the lock is no matter to the
// older scripts, and stays as it is; so does the intent of work that was begun.
func TestOlderScriptsShareAQueueWithAnswers(t *testing.T) {
	texts := older.BeforeCoolDown()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other, another := open(t, client, ns), open(t, client, ns), open(t, client, ns)
		keys := p.keys("k")
		old := func(script string, args ...any) any {
			t.Helper()
			got, err := redis.NewScript(texts[script]).Run(t.Context(), client, keys[:], args...).Result()
			if err != nil {
				t.Fatalf("the older %s: %v", script, err)
			}
			return got
		}
		asks := func(r store.Ref, join string) (granted bool, fence string) {
			t.Helper()
			switch got := old("acquire", r.Token, terms(r), join, "p"+p.channels).(type) {
			case string:
				return true, got
			case []any:
				if got[0] == int64(1) {
					fence, _ = got[1].(string)
					return true, fence
				}
			}
			return false, ""
		}

		// The queue: a call of Do, an older plain one, a call of Do for something else.
		r, first, plain, last := p.ref(time.Minute), other.ref(time.Minute), another.ref(time.Minute), other.ref(time.Minute)
		noteGrant(&r, p.recalling(r, store.Try, "f", 0, true))
		other.recalling(first, store.Wait, "f", 0, false)
		if granted, _ := asks(plain, "wait"); granted {
			t.Error("the older acquire has the lock that a call of Do has")
		}
		other.recalling(last, store.Wait, "g", 0, false)
		p.keep(r, store.Record{Fingerprint: "f", Data: "answer"}, store.HandedOver)
		other.renew(first, true)
		p.wantData("the one who is handed the lock", other.looking(first, "f"), "answer")
		other.release(first, false, store.HandedOver)
		granted, fence := asks(plain, "wait")
		if before, _ := strconv.ParseInt(fence, 10, 64); !granted || before <= r.Fence {
			t.Errorf("the older waiter behind a call of Do: granted %v, fence %s after %d", granted, fence, r.Fence)
		}
		if got := old("renew", plain.Token, terms(plain), ""); got != int64(1) {
			t.Errorf("the older renew of a lock that a call of Do has passed on = %v, want 1", got)
		}
		if a := other.recalling(last, store.Wait, "g", time.Minute, false); a.Recalled != nil {
			t.Errorf("behind an older holder it has the answer to another request: %+v", a.Recalled)
		}
		if got := old("release", plain.Token, p.channels, fence); got != int64(2) {
			t.Errorf("the older release to a call of Do = %v, want 2", got)
		}
		a := other.recalling(last, store.Wait, "g", time.Minute, true)
		if before, _ := strconv.ParseInt(fence, 10, 64); a.Fence <= before {
			t.Errorf("fence %d behind the older release of %d", a.Fence, before)
		}
		noteGrant(&last, a)
		p.wantData("the one behind the older release", other.looking(last, "g"), "")
		other.keep(last, store.Record{Fingerprint: "g", Data: "another", Retain: time.Minute}, store.Freed)

		// Older calls beside that answer: each gets the lock, and none the answer.
		next := p.ref(time.Minute)
		for what, takes := range map[string]func() bool{
			"acquire": func() bool { granted, _ := asks(plain, "try"); return granted },
			"all": func() bool {
				got, _ := old("all", terms(plain), plain.Token).([]any)
				return len(got) > 0 && got[0] == int64(1)
			},
			"releaseto": func() bool {
				granted, _ := asks(next, "try")
				old("releaseto", next.Token, plain.Token, terms(plain), "p"+p.channels, 0, 0, "")
				return granted
			},
		} {
			if !takes() {
				t.Errorf("the older %s does not get the lock beside an answer", what)
			}
			if got := old("release", plain.Token, p.channels, ""); got != int64(1) {
				t.Errorf("the older release beside an answer, after %s = %v, want 1", what, got)
			}
			p.wantData("after the older "+what, other.recalling(other.ref(time.Minute), store.Try, "g", 0, false).Recalled, "another")
		}
		if got := old("inspect").([]any); got[0] != "" || got[3] != int64(0) {
			t.Errorf("the older inspect beside an answer = %v, want nobody", got)
		}

		// Work that is noted as begun, whose lock an older force passes on to an older waiter.
		client.Del(t.Context(), redisKey{ns, "k", recordEnd}.String())
		r = p.ref(time.Minute)
		noteGrant(&r, p.recalling(r, store.Try, "f", 0, true))
		p.begin(r, 7)
		asks(plain, "wait")
		if got := old("force", p.channels); got != int64(1) {
			t.Errorf("the older force of noted work = %v, want 1", got)
		}
		if granted, _ := asks(plain, "wait"); !granted {
			t.Error("the older waiter does not get the lock that the older force has taken")
		}
		if a := other.recalling(other.ref(time.Minute), store.Try, "f", 0, false); a.Recalled != nil {
			t.Errorf("while an older one has the lock: %+v", a.Recalled)
		}
		if got := old("release", plain.Token, p.channels, ""); got != int64(1) {
			t.Errorf("the older release beside an intent = %v, want 1", got)
		}
		if found := other.recalling(other.ref(time.Minute), store.Try, "f", 0, false).Recalled; found == nil || found.Work != 7 {
			t.Errorf("after the older release: %+v, want the intent of work 7", found)
		}
		p.keep(r, store.Record{Fingerprint: "f", Data: "late", Retain: time.Minute, Work: 7}, store.NotHeld)
		p.wantData("kept behind an older force", other.recalling(other.ref(time.Minute), store.Try, "f", 0, false).Recalled, "late")
	})
}

// recalling asks for the lock, or for an answer for one who came so long ago.
func (p *probe) recalling(r store.Ref, join store.Join, fingerprint string, waited time.Duration, granted bool) store.Answer {
	p.Helper()
	a := p.recall(func() (store.Answer, error) {
		return p.Acquire(p.Context(), store.Request{Ref: r, Join: join, Recall: &store.Recall{Fingerprint: fingerprint, Waited: waited}})
	})
	if a.Granted != granted {
		p.Errorf("Acquire(%s) with Recall: granted %v, want %v", joins[join], a.Granted, granted)
	}
	return a
}

// looking looks for an answer for one who has the lock, and came a minute ago.
func (p *probe) looking(r store.Ref, fingerprint string) *store.Recalled {
	p.Helper()
	return p.recall(func() (store.Answer, error) {
		return p.Recall(p.Context(), store.Request{Ref: r, Recall: &store.Recall{Fingerprint: fingerprint, Waited: time.Minute}})
	}).Recalled
}

// begin notes that the work of a holder begins.
func (p *probe) begin(r store.Ref, work int64) {
	p.Helper()
	intent := &store.Intent{Work: work, Lies: time.Minute, Retain: time.Minute, Form: "form"}
	if a := p.recall(func() (store.Answer, error) {
		return p.Recall(p.Context(), store.Request{Ref: r, Recall: &store.Recall{Fingerprint: "f", Intent: intent}})
	}); !a.Granted {
		p.Errorf("the work is not noted: %+v", a)
	}
}

// recall asks again on a machine that stands still.
func (p *probe) recall(ask func() (store.Answer, error)) store.Answer {
	p.Helper()
	var a store.Answer
	_, err := insist(func() (err error) {
		a, err = ask()
		return err
	})
	if err != nil {
		p.Fatalf("with Recall: %v", err)
	}
	return a
}

// keep gives a lock back with an answer.
func (p *probe) keep(r store.Ref, record store.Record, want store.Released) {
	p.Helper()
	if did, _, err := p.Release(p.Context(), store.Give{Ref: r, Record: &record}); did != want || err != nil {
		p.Errorf("Release with an answer = %v, %v, want %v", did, err, want)
	}
}

func (p *probe) wantData(what string, got *store.Recalled, want string) {
	p.Helper()
	switch {
	case got == nil && want != "":
		p.Errorf("%s: no answer, want %q", what, want)
	case got != nil && (got.Data != want || got.Begun()):
		p.Errorf("%s: %+v, want %q", what, got, want)
	}
}
