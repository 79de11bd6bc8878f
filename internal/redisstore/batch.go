package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, batch []store.Renewal) {
	questions := make([]question, len(batch))
	for i := range batch {
		r, q := &batch[i], &questions[i]
		q.token, q.terms = r.Token, terms(r.Ref)
		s.about(q, r.Key, renewScript, &q.token, &q.terms)
		q.onekey = oneKeyOf(r.Ref, "keep", millis(r.TTL))
	}
	s.pipeline(ctx, questions, func(i int, reply any, err error) {
		held, ok := reply.(int64)
		if err == nil && !ok {
			err = &store.Error{Err: errReply, Ambiguous: true}
		}
		batch[i].Held, batch[i].Err = held == 1, err
	})
}

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, batch []store.Removal) {
	questions := make([]question, len(batch))
	for i := range batch {
		r, q := &batch[i], &questions[i]
		q.token, q.terms = r.Token, terms(r.Ref)
		s.about(q, r.Key, releaseScript, &q.token, &s.channels, &q.terms)
		q.onekey = oneKeyOf(r.Ref, "give", 0)
		q.entry = entry(r.Ref)
	}
	s.pipeline(ctx, questions, func(i int, reply any, err error) {
		if err == nil {
			_, err = s.releasedBy(reply)
		}
		batch[i].Err = err
	})
}

// pipeline sends the questions in one pipeline. It calls each for every question, with
// its index and what came of it. A question whose keys a Cluster moves just now is
// sent again in the form for that, and each is called for it a second time.
func (s *Store) pipeline(ctx context.Context, questions []question, each func(i int, reply any, err error)) {
	if deadline, ok := ctx.Deadline(); ok { // ctx may be one of store.Until, which has a deadline and does not end by itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	sent, places := make([]*question, len(questions)), make([]int, len(questions))
	for i := range questions {
		sent[i], places[i] = &questions[i], i
	}
	moving := s.pipelineKnown(ctx, sent, places, each)
	if len(moving) == 0 {
		return
	}
	for _, i := range moving {
		sent[i] = questions[i].withOneKey()
	}
	s.pipelineKnown(ctx, sent, moving, each)
	s.leaveQueues(ctx, questions, moving, each)
}

// pipelineKnown sends the questions at the given places. A pipeline does not fall
// back from EVALSHA to EVAL by itself, so those that met a server without their
// script are sent once more with its text. It returns those whose keys are being
// moved and that have a form for that.
func (s *Store) pipelineKnown(ctx context.Context, questions []*question, places []int, each func(i int, reply any, err error)) (moving []int) {
	unknown, moving := s.pipelineOnce(ctx, questions, places, true, each)
	if len(unknown) == 0 {
		return moving
	}
	_, more := s.pipelineOnce(ctx, questions, unknown, false, each)
	return append(moving, more...)
}

// pipelineOnce sends the questions at the given places. It returns those whose
// server did not know the script, and those whose keys are being moved.
func (s *Store) pipelineOnce(ctx context.Context, questions []*question, places []int, byHash bool, each func(i int, reply any, err error)) (unknown, moving []int) {
	pipe := s.client.Pipeline()
	cmds := make([]once, len(places))
	for i, place := range places {
		cmds[i] = questions[place].command(ctx, byHash)
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, failed := pipe.Exec(ctx)
	for i, place := range places {
		reply, err := cmds[i].Val(), cmds[i].Err()
		switch {
		case byHash && unknownScript(err):
			unknown = append(unknown, place)
		case err != nil:
			each(place, nil, s.failed(err))
			if s.moving(err, questions[place]) {
				moving = append(moving, place)
			}
		case reply == nil && failed != nil: // the pipeline ended before this one's reply
			each(place, nil, s.failed(failed))
		case reply == nil:
			each(place, nil, &store.Error{Err: errReply, Ambiguous: true})
		default:
			each(place, reply, nil)
		}
	}
	return unknown, moving
}

// leaveQueues removes the queue entries of those questions at the given places that
// give one up: the form for keys that are being moved leaves that out.
func (s *Store) leaveQueues(ctx context.Context, questions []question, places []int, each func(i int, reply any, err error)) {
	pipe := s.client.Pipeline()
	cmds := make(map[int]once)
	for _, i := range places {
		if q := &questions[i]; q.entry != "" {
			cmds[i] = once{redis.NewCmd(ctx, "zrem", q.args[queueAt], q.entry)}
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
	}
	if len(cmds) == 0 {
		return
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			each(i, nil, s.failed(err))
		}
	}
}
