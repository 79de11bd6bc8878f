package model

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// This file runs the scripts: the text that Redis gets, by the interpreter of the embedded Redis.

// A script is one that was compiled.
type script struct {
	name  string
	id    uint64 // its place among all that were compiled
	proto *lua.FunctionProto
}

// errReply is the reply that is an error.
type errReply string

// compiled is how many scripts were.
var compiled atomic.Uint64

// Scripts are those of one version, by the names of their files.
type Scripts map[string]*script

// Compile compiles the scripts of one version, given by the names of their files.
func Compile(texts map[string]string) (Scripts, error) {
	all := make(Scripts, len(texts))
	for name, text := range texts {
		chunk, err := parse.Parse(strings.NewReader(text), name)
		if err != nil {
			return nil, fmt.Errorf("%s.lua: %w", name, err)
		}
		proto, err := lua.Compile(chunk, name)
		if err != nil {
			return nil, fmt.Errorf("%s.lua: %w", name, err)
		}
		all[name] = &script{name, compiled.Add(1), proto}
	}
	return all, nil
}

// An interpreter runs scripts one after the other.
type interpreter struct {
	state  *lua.LState
	at     *server
	broken any // what the store has panicked with
}

func newInterpreter() *interpreter {
	i := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenTable, lua.OpenMath} {
		i.state.Push(i.state.NewFunction(open))
		i.state.Call(0, 0)
	}
	redis := i.state.NewTable()
	redis.RawSetString("call", i.state.NewFunction(func(l *lua.LState) int { return i.call(l, true) }))
	redis.RawSetString("pcall", i.state.NewFunction(func(l *lua.LState) int { return i.call(l, false) }))
	redis.RawSetString("error_reply", i.state.NewFunction(func(l *lua.LState) int {
		l.Push(toLua(l, errReply(l.CheckString(1))))
		return 1
	}))
	i.state.SetGlobal("redis", redis)
	if err := i.state.DoString(strictly); err != nil {
		panic(err) // it does not depend on anything
	}
	return i
}

// strictly has a name that nothing has be an error, as it is in a Redis.
const strictly = `setmetatable(_G, {__index = function(_, name) error('Script attempted to access nonexistent global variable ' .. tostring(name), 0) end})`

func (i *interpreter) close() { i.state.Close() }

// run carries out a script about some keys, and returns its reply.
func (i *interpreter) run(at *server, s *script, names, args []string) any {
	i.at = at
	l := i.state
	keys, argv := l.NewTable(), l.NewTable()
	for _, name := range names {
		keys.Append(lua.LString(name))
	}
	for _, arg := range args {
		argv.Append(lua.LString(arg))
	}
	l.SetGlobal("KEYS", keys)
	l.SetGlobal("ARGV", argv)
	l.Push(l.NewFunctionFromProto(s.proto))
	if err := l.PCall(0, 1, nil); err != nil {
		if i.broken != nil {
			panic(i.broken)
		}
		return raised(s, err)
	}
	reply := l.Get(-1)
	l.Pop(1)
	return fromLua(reply)
}

// commandFailed stands in front of what a command has said, to tell it from what is wrong with a script.
const commandFailed = "\x00"

// raised is the reply of a script that ended with an error: what a command has said, or what is wrong with the script.
func raised(s *script, err error) errReply {
	if said, ok := errors.AsType[*lua.ApiError](err); ok {
		if text, ok := strings.CutPrefix(said.Object.String(), commandFailed); ok {
			return errReply(fmt.Sprintf("%s script: %s.lua", text, s.name))
		}
	}
	return errReply(fmt.Sprintf("ERR %v script: %s.lua", err, s.name))
}

func (i *interpreter) call(l *lua.LState, raises bool) int {
	defer func() {
		if i.broken = recover(); i.broken != nil {
			panic(i.broken) // which PCall makes an error
		}
	}()
	args := make([]string, l.GetTop())
	for n := range args {
		switch v := l.Get(n + 1).(type) {
		case lua.LString:
			args[n] = string(v)
		case lua.LNumber:
			args[n] = fmt.Sprintf("%.17g", float64(v))
		default:
			l.Error(lua.LString("ERR Lua redis lib command arguments must be strings or integers"), 0)
		}
	}
	reply := i.at.call(args)
	if text, failed := reply.(errReply); failed && raises {
		l.Error(lua.LString(commandFailed+string(text)), 0)
	}
	l.Push(toLua(l, reply))
	return 1
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch v := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case errReply:
		t := l.NewTable()
		t.RawSetString("err", lua.LString(v))
		return t
	case []any:
		t := l.NewTable()
		for _, one := range v {
			t.Append(toLua(l, one))
		}
		return t
	}
	panic(fmt.Sprintf("reply %T", reply))
}

func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if text, failed := v.RawGetString("err").(lua.LString); failed {
			return errReply(text)
		}
		list := []any{}
		for n := 1; v.RawGetInt(n) != lua.LNil; n++ {
			list = append(list, fromLua(v.RawGetInt(n)))
		}
		return list
	}
	return nil
}
