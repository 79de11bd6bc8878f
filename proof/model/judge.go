package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file judges what a real server has done. MONITOR tells each command in the order in which it was carried out, and
// what scripts have called on the way; so what Redis did is compared with what the store of the model does, call by call.

// A call is one command that the server has carried out.
type call struct {
	at    Time // about when
	args  []string
	inner [][]string // what it has called, of a script
}

// parseMonitor reads the lines of MONITOR, but for those about other locks.
func parseMonitor(lines []string) ([]call, error) {
	var calls []call
	for _, line := range lines {
		stamp, rest, ok := strings.Cut(line, " [")
		source, words, ok2 := strings.Cut(rest, "] ")
		if !ok || !ok2 {
			continue // "OK"
		}
		seconds, micros, ok := strings.Cut(stamp, ".")
		if !ok || len(micros) != 6 {
			return nil, fmt.Errorf("no time: %q", line)
		}
		args, err := unquote(words)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		if strings.HasSuffix(source, "lua") {
			if len(calls) == 0 {
				return nil, fmt.Errorf("a script's call without a script: %q", line)
			}
			last := &calls[len(calls)-1]
			last.inner = append(last.inner, args)
			continue
		}
		calls = append(calls, call{at: number(seconds)*1_000_000 + number(micros), args: args})
	}
	return calls, nil
}

// unquote reads words in quotes, as MONITOR writes them.
func unquote(words string) (args []string, err error) {
	for words = strings.TrimSpace(words); words != ""; words = strings.TrimSpace(words) {
		quoted, err := strconv.QuotedPrefix(words)
		if err != nil {
			return nil, err
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		args, words = append(args, arg), words[len(quoted):]
	}
	return args, nil
}

// A judge has what the keys of one lock must hold by now.
type judge struct {
	lua     *interpreter
	scripts map[string]*script // by their hashes
	db      db
	judged  int // scripts
}

// newJudge returns a judge of a server that holds nothing.
func newJudge(texts map[string]string) (*judge, error) {
	all, err := Compile(texts)
	if err != nil {
		return nil, err
	}
	j := &judge{lua: newInterpreter(), scripts: make(map[string]*script)}
	for name, text := range texts {
		j.scripts[hashOf(text)] = all[name]
	}
	return j, nil
}

func (j *judge) close() { j.lua.close() }

// take takes in a call, and says what is wrong with it.
func (j *judge) take(c call) error {
	command := strings.ToUpper(c.args[0])
	if command != "EVALSHA" && command != "EVAL" {
		if len(c.args) > 1 && slices.Contains(keyNames[0][:], c.args[1]) {
			srv := &server{db: &j.db, now: c.at, inMillis: true}
			srv.call(c.args)
		}
		return nil
	}
	if len(c.args) < 4 || c.args[3] != keyNames[0][keyLock] {
		return nil // another lock's
	}
	sha := c.args[1]
	if command == "EVAL" {
		sha = hashOf(sha)
	}
	s, known := j.scripts[sha]
	if !known || len(c.inner) == 0 { // without any call Redis did not know it
		return nil
	}
	switch s.name {
	case "check", "rights", "write", "all", "inspect": // about several keys, or none of a lock
		return nil
	}
	j.judged++
	args := c.args[3+number(c.args[2]):]
	var err error
	for _, listens := range []bool{true, false} { // MONITOR does not tell what NUMSUB has answered
		if err = j.run(s, c, args, listens); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s.lua %q: %w", s.name, args, err)
}

// run carries out a script twice: by the time that MONITOR tells, which is a moment beside the script's, to see how far, and by
// the script's own.
func (j *judge) run(s *script, c call, args []string, listens bool) error {
	calls, _, err := j.calls(s, c.at, args, listens)
	if err != nil {
		return err
	}
	calls, after, err := j.calls(s, c.at+off(calls, c.inner), args, listens)
	if err != nil {
		return err
	}
	for i := range min(len(calls), len(c.inner)) {
		want, got := calls[i], c.inner[i]
		if !strings.EqualFold(want[0], got[0]) || !slices.Equal(want[1:], got[1:]) {
			return fmt.Errorf("its call %d is %q, want %q", i, got, want)
		}
	}
	if len(calls) != len(c.inner) {
		return fmt.Errorf("%d calls, want %d: %q, want %q", len(c.inner), len(calls), c.inner, calls)
	}
	j.db = after
	return nil
}

// calls returns what a script calls at a moment, and the keys after it.
func (j *judge) calls(s *script, at Time, args []string, listens bool) (all [][]string, after db, err error) {
	after = j.db
	srv := &server{db: &after, now: at, inMillis: true, listens: func(string) bool { return listens }, saw: func(args []string) {
		all = append(all, slices.Clone(args))
	}}
	if text, failed := j.lua.run(srv, s, keyNames[0][:], args).(errReply); failed {
		return nil, after, errors.New(string(text))
	}
	return all, after, nil
}

// off is by how much the first time differs that a script has made.
func off(want, got [][]string) Time {
	for i := range min(len(want), len(got)) {
		for n := range min(len(want[i]), len(got[i])) {
			w, g := timesOf(want[i][n]), timesOf(got[i][n])
			for k := range min(len(w), len(g)) {
				if d := g[k] - w[k]; d != 0 && d > -mostOff && d < mostOff {
					return d
				}
			}
		}
	}
	return 0
}

// mostOff is how far a script's time may be from that of MONITOR's line: the machine may stand in between.
const mostOff = 30 * second

// timesOf returns the times in a text.
func timesOf(text string) (all []Time) {
	timesIn(text, func(t *Time) { all = append(all, *t) })
	return all
}
