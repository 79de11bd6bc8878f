package redisstore

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// shadowOf is the shadow of p's store.
func (p *probe) shadowOf() *probe {
	p.Helper()
	s, err := p.Shadow()
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := s.Close(); err != nil {
			p.Errorf("Close = %v, want nil", err)
		}
	})
	return &probe{T: p.T, Store: s.(*Store)}
}

// note notes a work, and again where the machine was too slow.
func (p *probe) note(w store.Work) store.Beside {
	p.Helper()
	var b store.Beside
	_, err := insist(func() (err error) {
		b, err = p.Note(context.Background(), w)
		return err
	})
	if err != nil {
		p.Fatalf("Note: %v", err)
	}
	return b
}

// worker is one that began so long ago and ended so long ago, or goes on.
func (p *probe) worker(kind store.Kind, began, ended time.Duration) store.Work {
	return store.Work{Key: "k", Token: p.NewToken(""), Kind: kind, Began: began, Ended: ended, Looks: true}
}

const goesOn = time.Duration(-1)

// Each pair of works that overlap is told of once, by the one that is noted later, whichever began first, and also where one is
// over when it is noted.
func TestWorksThatOverlapAreToldOfOnce(t *testing.T) {
	exclusive, shared, permits := store.Kind{}, store.Kind{Shared: true}, store.Kind{Permits: 2}
	type one struct {
		kind         store.Kind
		began, ended time.Duration
		overlaps     bool
	}
	// A busy machine may note the second of two works more than a second later than the first, which is forgotten when it has been over
	// for two.
	for name, works := range map[string][]one{
		"one after the other":          {{exclusive, time.Second, 500 * time.Millisecond, false}, {exclusive, 400 * time.Millisecond, goesOn, false}},
		"both go on":                   {{exclusive, 0, goesOn, false}, {exclusive, 0, goesOn, true}, {exclusive, 0, goesOn, true}},
		"over, and noted late":         {{exclusive, 0, goesOn, false}, {exclusive, 2 * time.Second, 1500 * time.Millisecond, false}},
		"the later one noted first":    {{exclusive, 400 * time.Millisecond, 300 * time.Millisecond, false}, {exclusive, 3 * time.Second, 350 * time.Millisecond, true}},
		"both over":                    {{exclusive, 3 * time.Second, 500 * time.Millisecond, false}, {exclusive, 2500 * time.Millisecond, 200 * time.Millisecond, true}},
		"readers":                      {{shared, 0, goesOn, false}, {shared, 0, goesOn, false}, {exclusive, 0, goesOn, true}, {shared, 0, goesOn, true}},
		"as many as there are permits": {{permits, 0, goesOn, false}, {permits, 0, goesOn, false}, {permits, 0, goesOn, true}},
		"a permit beside another kind": {{exclusive, 0, goesOn, false}, {permits, 0, goesOn, true}},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, s redistest.Backend) {
				p := open(t, s.Client(t), redistest.Prefix(t)).shadowOf()
				for i, w := range works {
					if got := p.note(p.worker(w.kind, w.began, w.ended)); got.Overlaps != w.overlaps || got.Locked {
						t.Errorf("work %d: %+v, want that it overlaps: %v, and that nobody has the lock", i, got, w.overlaps)
					}
				}
			})
		})
	}
}

// Who asks twice with one token, because no answer came, is told the same; one that is noted further is told of nobody twice, and
// when it ends it is beside nobody any more.
func TestAWorkIsNotedFurther(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p := open(t, client, ns).shadowOf()
		p.note(p.worker(store.Kind{}, 0, goesOn))
		w := p.worker(store.Kind{}, 0, goesOn)
		first := p.note(w)
		w.Began = 300 * time.Millisecond
		if again := p.note(w); again != first || !again.Overlaps {
			t.Errorf("asked again: %+v, want the same as before, %+v, which overlaps", again, first)
		}
		w.Noted = first.Noted
		if got := p.note(w); got.Overlaps || got.Noted != first.Noted {
			t.Errorf("noted further: %+v, want that it tells of nobody again, and began at %d", got, first.Noted)
		}
		works := ns + ":shadow:{k}:works"
		if n := client.ZCard(t.Context(), works).Val(); n != 2 {
			t.Errorf("%d works are noted, want 2", n)
		}
		if ttl := client.PTTL(t.Context(), works).Val(); ttl <= 0 || ttl > 10*time.Second {
			t.Errorf("the works have a TTL of %v, want some seconds", ttl)
		}
		w.Ended = 0
		p.note(w)
		ends, err := client.ZScore(t.Context(), works, w.Token+"::"+strconv.FormatInt(w.Noted, 10)).Result()
		if err != nil {
			t.Error(err)
		}
		if ahead := time.UnixMicro(int64(ends)).Sub(client.Time(t.Context()).Val()); ahead > 0 {
			t.Errorf("a work that has ended lies there with an end in %v", ahead)
		}
	})
}

// A key on which many are at work all the time keeps no more than those of the last seconds.
func TestWorksThatAreLongOverAreForgotten(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p := open(t, client, ns).shadowOf()
		for range 3 {
			p.note(p.worker(store.Kind{}, time.Minute, 50*time.Second))
		}
		if n := client.ZCard(t.Context(), ns+":shadow:{k}:works").Val(); n != 1 {
			t.Errorf("%d works are noted, want the last alone", n)
		}
	})
}

// Whoever has the lock itself, and is not in shadow, is seen, unless his work is over or nobody is to look; and nobody is kept
// from the lock by those in shadow.
func TestAWorkSeesWhoHasTheLock(t *testing.T) {
	readers, permits := store.Kind{Shared: true}, store.Kind{Permits: 2}
	for name, c := range map[string]struct {
		holds, works     store.Kind
		stays            bool
		looksNot         bool
		locked, overlaps bool
	}{
		"a mutex":                  {locked: true, overlaps: true},
		"a mutex that cools down":  {stays: true},
		"nobody looks":             {looksNot: true},
		"a reader, and a writer":   {holds: readers, locked: true, overlaps: true},
		"two readers":              {holds: readers, works: readers, locked: true},
		"a reader that cools down": {holds: readers, stays: true},
		"a permit of two":          {holds: permits, works: permits, locked: true},
		"a permit, and a mutex":    {holds: permits, locked: true, overlaps: true},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, s redistest.Backend) {
				client, ns := s.Client(t), redistest.Prefix(t)
				p := open(t, client, ns)
				shadow := p.shadowOf()
				shadow.get(store.Ref{Key: "k", Token: shadow.NewToken(""), TTL: time.Minute}, store.Try)
				r := p.ref(time.Minute)
				r.Kind = c.holds
				p.get(r, store.Try)
				if c.stays {
					if _, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: time.Minute}); err != nil {
						t.Fatal(err)
					}
				}
				w := shadow.worker(c.works, 0, goesOn)
				w.Looks = !c.looksNot
				if got := shadow.note(w); got.Locked != c.locked || got.Overlaps != c.overlaps {
					t.Errorf("%+v, want that somebody has the lock: %v, and that it overlaps: %v", got, c.locked, c.overlaps)
				}
			})
		})
	}
}

// What lies under the keys of others is left alone, and is an error, or no lock.
func TestANoteLeavesOtherDataAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for _, end := range []string{":{k}", ":shadow:{k}:works"} {
			client, ns := s.Client(t), redistest.Prefix(t)
			p := open(t, client, ns).shadowOf()
			planted := ns + end
			if err := client.RPush(t.Context(), planted, "data").Err(); err != nil {
				t.Fatal(err)
			}
			_, err := p.Note(t.Context(), p.worker(store.Kind{}, 0, goesOn))
			keepsOtherData(t, client, ns, planted, "Note", err)
		}
	})
}

// Nobody makes the shadow of a shadow, and only a shadow notes works.
func TestAShadowHasNoShadow(t *testing.T) {
	p := open(t, redistest.NewClient(t, "127.0.0.1:1"), "kit")
	if _, err := p.Note(t.Context(), p.worker(store.Kind{}, 0, goesOn)); err == nil {
		t.Error("a store that is no shadow notes works")
	}
	if _, err := p.shadowOf().Shadow(); err == nil {
		t.Error("a shadow has a shadow")
	}
}

// The rights of a user for locks are enough for those in shadow, too.
func TestTheMinimalACLIsEnoughForShadows(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(minimalACL)
	p, q = p.shadowOf(), q.shadowOf()
	for range 2 { // the second time the server knows the scripts
		if err := u.life(p, q); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.Note(t.Context(), p.worker(store.Kind{}, 3*time.Second, 2500*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, key := range u.raw.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "kit:shadow:{") {
			t.Errorf("there is the key %q", key)
		}
	}
}
