package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Policies in shadow (lockmw.Policy.Shadow): the store of their locks, and what is noted of their work (lua/note.lua).

// ShadowEnd is what stands behind a namespace for the locks that are only in shadow. Whoever may use the keys "lock:*" may use
// those of "lock:shadow:{…}" as well. The channels are those of the namespace itself: only its lockers' names tell them apart.
const ShadowEnd = ":shadow"

// worksEnd is the end of the key of the works.
const worksEnd = "}:works"

var errNoShadow = errors.New("there is no shadow of a shadow")

// Shadow implements store.Store.
func (s *Store) Shadow() (store.Store, error) {
	if s.shadow == nil {
		return nil, errNoShadow
	}
	return s.shadow()
}

// Note implements store.Store.
func (s *Store) Note(ctx context.Context, w store.Work) (store.Beside, error) {
	until := deadline(ctx)
	beside := s.shadowed
	if beside == "" {
		return store.Beside{}, &store.Error{Err: errors.New("only a store of Shadow notes works"), Permanent: true}
	}
	c := s.command()
	c.script, c.token = noteScript, w.Token
	c.keys[0], c.keys[1], c.keys[2] = redisKey{beside, w.Key, keyEnds[0]}, redisKey{beside, w.Key, keyEnds[4]}, redisKey{s.ns, w.Key, worksEnd}
	ended, noted, looks := "", "", "0"
	if w.Ended >= 0 {
		ended = strconv.FormatInt(w.Ended.Microseconds(), 10)
	}
	if w.Noted != 0 {
		noted = strconv.FormatInt(w.Noted, 10)
	}
	if w.Looks {
		looks = "1"
	}
	c.args = append(c.room[:0], nil, nil, 3, &c.keys[0], &c.keys[1], &c.keys[2],
		&c.token, kindOf(w.Kind), w.Began.Microseconds(), ended, noted, looks)
	c.call.Patient = true // nobody waits for it
	reply, err := s.send(ctx, timeToSend(until, time.Now()), w.Key, c, nil)
	if err != nil {
		return store.Beside{}, err
	}
	return readBeside(reply)
}
