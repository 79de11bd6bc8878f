package redisstore

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// severalLeast is how many questions are worth putting into one. With two, the way
// into a script costs Redis more than the detour of one that many.lua leaves open.
const severalLeast = 2

// A piece is one command of a pipeline: the question of one call, or one for
// several calls that many.lua may be able to answer.
type piece struct {
	*question
	calls   []*call
	several bool
	byText  bool // the server does not know the script
}

// together carries out a batch in one pipeline, and in further ones what could
// not be answered in the form in which it was asked.
func (s *Store) together(batch []*call) {
	if !s.suits.Load() {
		if err := s.check(batch[0], s.client, &batch[0].question); err != nil {
			outcomes := make([]outcome, len(batch))
			for i, c := range batch {
				outcomes[i] = outcome{call: c, err: err}
			}
			s.sender.end(outcomes...)
			return
		}
	}
	for pieces := s.pieces(batch); len(pieces) > 0; {
		pieces = s.send(pieces)
	}
}

// pieces divides a batch.
func (s *Store) pieces(batch []*call) []piece {
	common := make([]*call, 0, len(batch))
	for _, c := range batch {
		if c.common {
			common = append(common, c)
		}
	}
	if len(common) < s.several || s.apart.Load() {
		return alone(batch)
	}
	pieces := make([]piece, 1, 1+len(batch)-len(common))
	pieces[0] = piece{question: many(common), calls: common, several: true}
	for i, c := range batch {
		if !c.common {
			pieces = append(pieces, piece{question: &c.question, calls: batch[i : i+1]})
		}
	}
	return pieces
}

// alone has each call ask its own question.
func alone(calls []*call) []piece {
	pieces := make([]piece, len(calls))
	for i, c := range calls {
		pieces[i] = piece{question: &c.question, calls: calls[i : i+1]}
	}
	return pieces
}

// Where a question on one lock has what many.lua wants to know.
const (
	lockAt  = keyPosition + 0
	queueAt = keyPosition + 1
	aliveAt = keyPosition + 2
	fenceAt = keyPosition + 3
	tokenAt = keyPosition + keyCount
	termsAt = tokenAt + 1 // if it is acquire.lua's
)

// many puts the calls' questions into one.
func many(calls []*call) *question {
	const keys, args = 4, 2 // of each
	all := make([]any, 0, keyPosition+(keys+args)*len(calls))
	all = append(all, nil, nil, keys*len(calls))
	for _, c := range calls {
		all = append(all, c.args[lockAt], c.args[queueAt], c.args[fenceAt], c.args[aliveAt])
	}
	for _, c := range calls {
		var ms any = ""
		if c.script == acquireScript {
			ms = c.args[termsAt]
		}
		all = append(all, c.args[tokenAt], ms)
	}
	return &question{script: manyScript, args: all}
}

// send sends the pieces, ends the calls that have an answer, and returns what is to be
// sent for the others.
func (s *Store) send(pieces []piece) (open []piece) {
	ctx := pieces[0].calls[0]
	for _, p := range pieces {
		for _, c := range p.calls {
			if c.deadline.After(ctx.deadline) {
				ctx = c // those with less time do not wait until then
			}
		}
	}
	pipe := s.client.Pipeline()
	cmds := make([]once, len(pieces))
	for i := range pieces {
		cmds[i] = pieces[i].command(ctx, !pieces[i].byText)
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	outcomes := make([]outcome, 0, callsMax)
	for i, p := range pieces {
		value, err := cmds[i].Val(), cmds[i].Err()
		switch {
		case unknownScript(err) && !p.byText:
			p.byText = true
			open = append(open, p)
		case p.several && refused(err):
			if redis.HasErrorPrefix(err, "CROSSSLOT") { // a Cluster that looks like one server
				s.apart.Store(true)
			}
			open = append(open, alone(p.calls)...)
		case p.several && err == nil:
			var left []*call
			outcomes, left = done(outcomes, p.calls, value)
			open = append(open, alone(left)...)
		default:
			if err != nil {
				value, err = nil, s.failedAt(err, p.question)
			}
			for _, c := range p.calls {
				outcomes = append(outcomes, outcome{c, value, err})
			}
		}
	}
	outcomes, open = s.sender.unwanted(outcomes, open)
	s.sender.end(outcomes...)
	return open
}

// done appends what came of the calls that many.lua carried out, and returns the others.
func done(outcomes []outcome, calls []*call, reply any) (_ []outcome, left []*call) {
	var fence any
	var each string
	if list, _ := reply.([]any); len(list) == 2 {
		fence = list[0]
		each, _ = list[1].(string)
	}
	for i, c := range calls {
		switch {
		case len(each) != len(calls):
			outcomes = append(outcomes, outcome{call: c}) // whoever reads it says that it is no answer
		case each[i] != '1':
			left = append(left, c)
		case c.script == acquireScript:
			outcomes = append(outcomes, outcome{call: c, value: fence})
		default:
			outcomes = append(outcomes, outcome{call: c, value: int64(1)})
		}
	}
	return outcomes, left
}

// refused says whether Redis answered with an error: a script whose own commands
// cannot fail did nothing then.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
