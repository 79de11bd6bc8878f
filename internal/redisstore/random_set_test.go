package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// The part of the random histories that is about locks that are taken by SET.

// A hook has a test come between the commands of a question to an embedded Redis.
type hook struct {
	armed    atomic.Bool
	commands chan string   // the name of one that the server is about to carry out
	proceed  chan struct{} // it may
}

func newHook(mini *redistest.Mini) *hook {
	h := &hook{commands: make(chan string), proceed: make(chan struct{})}
	mini.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if h.armed.Load() {
			h.commands <- cmd
			<-h.proceed
		}
		return false
	})
	return h
}

// during calls question, and each, without the hook, before every command of it until
// each returns false.
func (h *hook) during(question func(), each func(cmd string) (more bool)) {
	done := make(chan struct{})
	h.armed.Store(true)
	go func() {
		defer close(done)
		question()
	}()
	halted := false
	defer func() {
		if halted { // each has ended the test
			h.proceed <- struct{}{}
			<-done
		}
	}()
	for {
		select {
		case cmd := <-h.commands:
			h.armed.Store(false)
			halted = true
			more := each(cmd)
			halted = false
			h.armed.Store(more)
			h.proceed <- struct{}{}
		case <-done:
			h.armed.Store(false)
			return
		}
	}
}

// between has the others do anything between two commands of a question of asker.
func (h *history) between(asker *member) {
	h.Helper()
	h.asker = asker
	defer func() { h.asker = nil }()
	for range max(h.rand.IntN(6)-3, 0) {
		h.step()
		h.check()
	}
}

// ask asks for c, and says what the model makes of it. It has the others do anything
// between the commands of a question that is not put by script.
func (h *history) ask(c *claim, join store.Join, place store.Place) (want turn, got store.Answer, err error) {
	h.Helper()
	m := &h.model
	r := store.Request{Ref: c.Ref, Join: join, Place: place, Again: h.asker != nil}
	if next := m.brings; next != nil {
		r.Place, r.Next = store.Place{}, store.Waiter{Ref: next.Ref, Place: place}
	}
	if !h.bySet || h.asker != nil || !c.member.suits.Load() { // its first question is put by script
		want = m.acquire(c, join, place)
		want.at = h.micros()
		got, err = c.member.Acquire(context.Background(), r)
		return want, got, err
	}
	if h.rand.IntN(8) > 0 {
		c.member.noteClock(h.micros()) // which has moved by more than a clock does
	}
	var began, took, alone, ours, scripted bool
	h.hook.during(func() { got, err = c.member.Acquire(context.Background(), r) }, func(cmd string) (more bool) {
		switch cmd {
		case "SET":
			began, took = true, !m.taken()
			if took {
				m.holder, m.set, m.toldTo, m.expires = c.Token, ":~", "", m.in(c.TTL)
			}
		case "EXISTS":
			if took {
				value, _ := h.mini.Get("kit:{k}")
				m.since, _ = strconv.ParseInt(value[strings.LastIndex(value, "~")+1:], 10, 64)
				h.notef("%s has the lock by SET", h.name(c))
			}
			since := m.since
			h.between(c.member)
			alone = len(m.queue) == 0 && len(m.alive) == 0 && !h.mini.Exists("kit:{k}:fence")
			if took && m.since != since && m.holder == c.Token {
				h.Errorf("the lock was taken by SET twice")
			}
		case "TIME":
			h.between(c.member)
			want.at = h.micros()
		case "GET":
			h.between(c.member)
			off := want.at - m.since
			ours = m.holder == c.Token && m.set == ":~" && max(off, -off) <= offMost.Microseconds()
		case "EVALSHA":
			scripted = true
			want = m.acquire(c, join, place)
			want.at = h.micros()
			return false
		}
		return true
	})
	switch {
	case scripted && took && alone && ours:
		h.Errorf("a script was asked, want that it is not needed")
	case !scripted && (!took || !alone || !ours):
		h.Errorf("no script was asked: took %v, alone %v, ours %v", took, alone, ours)
	case !scripted && want.at <= m.fence:
		h.Errorf("fence %d after %d, want a higher one", want.at, m.fence)
	}
	if !scripted {
		m.fence, c.fence, m.toldTo, want.granted = want.at, want.at, c.Token, true
		h.natives++
	} else if began && took {
		h.halves++
	}
	return want, got, err
}

// force has somebody take the lock from whoever has it.
func (h *history) force(by *member) {
	h.Helper()
	want := h.model.force()
	h.notef("the lock is taken from its holder")
	if err := by.ForceRelease(context.Background(), "k", store.Intervention{}); err != nil {
		h.Fatalf("ForceRelease: %v", err)
	}
	for _, token := range want.revoked {
		h.hears(token, "revoked "+token+" kit:{k}")
	}
	h.told(want)
}
