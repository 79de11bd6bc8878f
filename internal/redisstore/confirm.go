package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// acks are what replicas confirm.
type acks struct {
	replicas int                   // that have to confirm a grant; 0: none is asked
	within   time.Duration         // the time that they have for it
	waits    redis.UniversalClient // the Store's client, with read timeouts that leave that time
}

// Confirm has every grant, and the beginning of work that is noted (store.Intent), confirmed by replicas within a time. What is kept of
// work waits for them as long, and is kept also without them. Confirm is called before the first command.
func (s *Store) Confirm(replicas int, within time.Duration) error {
	if s.cluster {
		return errors.New("a Cluster's replicas cannot be asked: WAIT would go to another node than the lock")
	}
	s.replicas, s.within = replicas, within
	s.waits = s.client
	if c, ok := s.client.(*redis.Client); ok { // WAIT is answered after within, also where any other answer is late by then
		s.waits = c.WithTimeout(c.Options().ReadTimeout + within)
	}
	return nil
}

// gives reports whether c may grant the lock, or note that work begins: nobody is to rely on that before replicas have it.
func (c *command) gives() bool {
	return c.script == acquireScript || c.script == recallScript || c.script == resumeScript
}

// isConfirmed reports whether replicas are asked behind c. Of what was done and is kept they are, so that they mostly have it before anybody
// is told; but it cannot be taken back.
func (c *command) isConfirmed() bool {
	return c.gives() || c.script == keepScript || c.script == keepToScript || c.script == resolveScript || c.script == handOnScript
}

// confirmed carries c out with WAIT behind the script, on the same connection: WAIT counts the replicas that have all that
// its connection has written. It is one of go-redis's, because nothing else is answered on it until WAIT is.
func (s *Store) confirmed(ctx context.Context, c *command) (any, error) {
	eras := s.dialer.eras.Load()
	reply, acks, err := s.andWait(ctx, c, true)
	if unknownScript(err) {
		reply, acks, err = s.andWait(ctx, c, false)
	}
	if reply == nil && s.mayBeElsewhere(err, eras) {
		reply, acks, err = s.andWait(ctx, c, false)
	}
	if reply != nil && !c.gives() { // it was carried out, whatever became of WAIT
		return reply, nil
	}
	if err != nil {
		e := s.failedAt(err, c)
		e.Ambiguous = e.Ambiguous || reply != nil // then the script was carried out, and WAIT was not
		return nil, e
	}
	if a, err := readAnswer(reply); err == nil && a.Granted && acks < int64(s.replicas) {
		return nil, &store.Error{
			Err:       fmt.Errorf("%d of %d replicas confirmed within %v", acks, s.replicas, s.within),
			Ambiguous: true, // the lock is there
			Evidence:  store.Answered,
		}
	}
	return reply, nil
}

// forReplies is what WAIT leaves of a command's time: its reply is to come in that, and with it the script's.
const forReplies = 100 * time.Millisecond

func (s *Store) andWait(ctx context.Context, c *command, byHash bool) (reply any, acks int64, err error) {
	pipe := s.waits.Pipeline()
	cmd := c.goRedis(ctx, byHash)
	_ = pipe.Process(ctx, cmd) // only queues it
	within := s.within
	if until, ok := ctx.Deadline(); ok {
		within = max(min(within, time.Until(until)-forReplies), time.Millisecond) // 0 would wait for ever
	}
	wait := once{redis.NewCmd(ctx, "wait", s.replicas, millis(within))}
	_ = pipe.Process(ctx, wait)
	_, err = pipe.Exec(ctx)
	if cmd.Err() != nil {
		return nil, 0, cmd.Err()
	}
	if err != nil {
		return cmd.Val(), 0, err
	}
	acks, _ = wait.Val().(int64)
	return cmd.Val(), acks, nil
}
