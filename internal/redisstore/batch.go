package redisstore

import (
	"context"

	"github.com/lockmw/kit/internal/store"
)

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, batch []store.Renewal) {
	questions := make([]question, len(batch))
	for i := range batch {
		r, q := &batch[i], &questions[i]
		q.token, q.terms = r.Token, terms(r.Ref)
		s.about(q, r.Key, renewScript, &q.token, &q.terms)
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
	}
	s.pipeline(ctx, questions, func(i int, reply any, err error) {
		if err == nil {
			_, err = s.releasedBy(reply)
		}
		batch[i].Err = err
	})
}

// pipeline sends the questions in one pipeline and calls each, by its place,
// with what came of it. A pipeline does not fall back from EVALSHA to EVAL by
// itself, so the questions that met a server without their script are sent once
// more with its text.
func (s *Store) pipeline(ctx context.Context, questions []question, each func(i int, reply any, err error)) {
	places := make([]int, len(questions))
	for i := range places {
		places[i] = i
	}
	unknown := s.pipelineOnce(ctx, questions, places, true, each)
	if len(unknown) > 0 {
		s.pipelineOnce(ctx, questions, unknown, false, each)
	}
}

// pipelineOnce sends the questions at the given places. It returns those whose
// server did not know the script.
func (s *Store) pipelineOnce(ctx context.Context, questions []question, places []int, byHash bool, each func(i int, reply any, err error)) (unknown []int) {
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
		case reply == nil && failed != nil: // the pipeline ended before this one's reply
			each(place, nil, s.failed(failed))
		case reply == nil:
			each(place, nil, &store.Error{Err: errReply, Ambiguous: true})
		default:
			each(place, reply, nil)
		}
	}
	return unknown
}
