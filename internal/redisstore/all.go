package redisstore

import (
	"context"
	"time"

	"github.com/lockmw/kit/internal/store"
)

var _ store.Bundler = (*Store)(nil)

// AcquireAll implements store.Bundler. A Cluster keeps the keys on several
// servers, and replicas are asked about one lock at a time: there it asks
// nothing and answers that not all can be had.
func (s *Store) AcquireAll(
	ctx context.Context, refs []store.Ref, timeout time.Duration, late func(granted bool, err error),
) ([]int64, error) {
	if s.cluster || s.replicas > 0 {
		return nil, nil
	}
	if err := s.elsewhere(); err != nil {
		return nil, err
	}
	keys := make([][keyCount]redisKey, len(refs))
	args := append(make([]any, 0, keyPosition+(keyCount+1)*len(refs)+1), nil, nil, keyCount*len(refs))
	for i, r := range refs {
		keys[i] = s.redisKeys(r.Key)
		args = appendKeys(args, &keys[i])
	}
	args = append(args, terms(refs[0]))
	for _, r := range refs {
		args = append(args, r.Token)
	}
	c := s.command()
	c.script, c.args = allScript, args
	reply, err := s.send(ctx, time.Now().Add(bounded(timeout)), refs[0].Key, c, func(reply any, err error) {
		var granted []int64
		if err == nil {
			granted, err = bundle(reply, len(refs))
		}
		if late != nil {
			late(granted != nil, err)
		}
	})
	if err != nil {
		return nil, err
	}
	return bundle(reply, len(refs))
}

// bundle reads all.lua's result: the fences, or nil if nothing was granted.
func bundle(reply any, n int) ([]int64, error) {
	f, ok := reply.([]any)
	if ok && len(f) == 1 && f[0] == int64(0) {
		return nil, nil
	}
	if !ok || len(f) != n+2 || f[0] != int64(1) {
		return nil, &store.Error{Err: errReply, Ambiguous: true}
	}
	fences := make([]int64, n)
	for i := range fences {
		if fences[i], ok = integer(f[i+2]); !ok {
			return nil, &store.Error{Err: errReply, Ambiguous: true}
		}
	}
	return fences, nil
}
