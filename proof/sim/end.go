package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How a world ends, and what may be left of it.

// end heals what can be healed, closes all, and looks what is left.
func (w *world) end() {
	for _, part := range w.parts {
		part.way.Heal()
		if !part.gone.Load() {
			part.way.Refuse(false)
			part.nobody.Store(false)
		}
	}
	time.Sleep(1500 * time.Millisecond)
	if w.desk != nil {
		w.forecasts()
	}
	anyGone := false
	for i, part := range w.parts {
		anyGone = anyGone || part.gone.Load()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		began := time.Now()
		err := part.locks.Close(ctx)
		cancel()
		if took := time.Since(began); took > 10*time.Second {
			w.judge.addf("Close of process %d took %v", i, took)
		}
		if err != nil && !part.gone.Load() {
			w.judge.addf("Close of process %d: %v", i, err)
		}
	}
	time.Sleep(2 * time.Second)
	if last := w.judge.lastHandedOn(); !last.IsZero() {
		time.Sleep(time.Until(last.Add(heartbeats))) // a ticket with which nobody came costs its time at most
	}
	if anyGone {
		time.Sleep(45 * time.Second)
	}
	left, err := w.plain.Keys(context.Background(), "*").Result()
	if err != nil {
		w.judge.addf("KEYS: %v", err)
	}
	w.known(left)
	left = slices.DeleteFunc(left, func(name string) bool { return name == settingsKey || strings.HasPrefix(name, inShadow) })
	for _, name := range left {
		if lasts := w.plain.PTTL(context.Background(), name).Val(); !strings.HasSuffix(name, ":fence") && !strings.HasSuffix(name, ":answer") || lasts < 0 {
			w.judge.addf("%s is left: %s", name, w.tell(name))
		}
	}
	if w.desk == nil {
		return
	}
	time.Sleep(longestTTL + 5*time.Second)
	left, err = w.plain.Keys(context.Background(), inShadow+"*").Result()
	if err != nil || len(left) > 0 {
		w.judge.addf("%q are left, %v", left, err)
	}
}

const (
	// heartbeats is for how long Redis has the heartbeats of those who have waited for a lock that ends by its TTL: no release takes them away.
	heartbeats = 11 * time.Second
	// settingsKey is the hash of the settings. It has no end.
	settingsKey = "lockmw:settings:lock"
	// inShadow is in front of the keys of calls in shadow.
	inShadow = "lock:shadow:"
)

// forecasts waits until those who wait in shadow have had their turns, or have given up, and judges what is left then: what a process could not take
// away in time, because its way to Redis was ill, ends with its TTL.
func (w *world) forecasts() {
	time.Sleep(longestWait + 4*time.Second)
	for at, part := range w.parts {
		if !w.longWell(at) || part.Away >= farForTTL {
			return
		}
	}
	names, err := w.plain.Keys(context.Background(), inShadow+"*").Result()
	if err != nil {
		w.judge.addf("KEYS: %v", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ":fence") {
			w.judge.addf("%s is left, and nobody calls any more: %s", name, w.tell(name))
		}
	}
}

func (w *world) tell(name string) string {
	value, _ := w.plain.Get(context.Background(), name).Result()
	return fmt.Sprintf("%q for %v", value, w.plain.PTTL(context.Background(), name).Val())
}
