package redisstore

import "context"

// How a mutex is served while a Cluster moves its slot: by a form of each command that concerns one key.

// moving reports whether a command was refused because a Cluster moves its keys
// just now, and can be put in another form.
func (s *Store) moving(err error, c *command) bool {
	return s.cluster && c.onekey.do != "" && codeOfReply(err) == "TRYAGAIN"
}

// withOneKey puts c, about the lock called name, in the form in which it concerns one key, which is
// sent to where the key is (ASK).
func (s *Store) withOneKey(ctx context.Context, name string, c *command) (any, error) {
	until := c.call.Deadline
	var beside any = c.fence
	if c.onekey.do == "acquire" {
		fence, err := s.ask(ctx, until, name, "get", c.args[fenceAt])
		if err != nil {
			return nil, s.failedAt(err, c)
		}
		beside, _ = fence.(string)
	}
	form := &command{
		script: oneKeyScript,
		args:   []any{nil, nil, 1, c.args[lockAt], c.args[tokenAt], c.onekey.do, c.onekey.ms, beside},
	}
	form.call.Deadline, form.call.Urgent = until, c.call.Urgent
	value, _, err := s.carry(ctx, name, form, nil)
	if err != nil || c.onekey.entry == "" {
		return value, err
	}
	granted := false
	if c.onekey.do == "acquire" {
		a, err := readAnswer(value)
		if err != nil {
			return nil, err
		}
		granted = a.Granted
	}
	if c.onekey.keeps && !granted {
		return value, nil
	}
	if _, err = s.ask(ctx, until, name, "zrem", c.args[queueAt], c.onekey.entry); err != nil {
		e := s.failedAt(err, c)
		e.Ambiguous = e.Ambiguous || granted // a place that stays would be handed the lock when it is given back
		return nil, e
	}
	return value, nil
}
