// Package partner has methods whose types no other package can write.
package partner

import "github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign/partner/internal/secret"

type hidden struct{ ID string }

// Shown is a name for what has none elsewhere.
type Shown = hidden

type List[T any] []T

// Base is for others to embed.
type Base struct{ Count int }

func (b Base) Fine() (List[Shown], int)              { return nil, b.Count }
func (b Base) Slice() []hidden                       { return nil }
func (b Base) Map(map[string]*hidden)                {}
func (b Base) Func(func(...hidden) error)            {}
func (b Base) Generic() List[hidden]                 { return nil }
func (b Base) Secret() <-chan secret.Token           { return nil }
func (b Base) Struct() struct{ count int }           { return struct{ count int }{b.Count} }
func (b Base) Interface(interface{ count() [2]int }) {}

type Slices interface{ Slice() []hidden }

type Secrets interface{ Secret() <-chan secret.Token }

type Structs interface{ Struct() struct{ count int } }
