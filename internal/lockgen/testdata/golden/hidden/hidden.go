// Package hidden has names that could hide those of generated code.
package hidden

import (
	ctx "context"
	html "html/template"
	text "text/template"
	clock "time"
)

var (
	context  = 1
	time     = "t"
	lockmw   = "x"
	funclock = context
	d        = time + lockmw
)

type Odd interface {
	//lockmw:lock {context}:{error}:{nil}:{tenant(err)} ttl=1s
	Params(c ctx.Context, context string, error string, nil int, err string) (r0 bool, next error2)
	//lockmw:lock {d}{locks}{v}{t}{i} wait=1h
	Locals(c ctx.Context, d, locks, v, t, i string, err, failed *string) (int, error2)
	//lockmw:lock {tenant}:{len(self)}
	Functions(c ctx.Context, tenant string, self string, string int) error2
	next(c ctx.Context) error2
	lockParams(c ctx.Context) error2
	//lockmw:lock {method}
	Unnamed(ctx.Context, int, ...string) error2
	//lockmw:lock {t.Name()}
	Templates(c ctx.Context, h *html.Template, t *text.Template, at clock.Time) error2
}

type error2 = error

func tenant(s string) (string, error2) { return s + d, nil }

func len(s string) int { return funclock + int(s[0]) }

//lockmw:lock {Own}
func Own(context ctx.Context, Own string, lock int) error2 { return context.Err() }
