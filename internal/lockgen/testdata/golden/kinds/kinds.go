// Package kinds has a key of every kind of value.
package kinds

import (
	"context"
	"net/netip"
	"time"
)

type (
	Text  string
	Num   int32
	Count uint16
	Flag  bool
	Bytes []byte
	UUID  [16]byte
)

// String says less than the value, which counts.
func (Text) String() string { return "***" }

// MarshalText is one hexadecimal digit for each half byte.
func (u UUID) MarshalText() ([]byte, error) {
	var text []byte
	for _, b := range u {
		text = append(text, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
	}
	return text, nil
}

// Weekday has a text that is made by String alone.
type Weekday [1]byte

func (w Weekday) String() string { return string('a' + rune(w[0]%7)) }

type All struct {
	String   string
	Text     Text
	Int      int
	Int8     int8
	Int16    int16
	Int32    int32
	Int64    int64
	Uint     uint
	Uint8    uint8
	Uint16   uint16
	Uint32   uint32
	Uint64   uint64
	Uintptr  uintptr
	Bool     bool
	Num      Num
	Count    Count
	Flag     Flag
	Bytes    []byte
	Named    Bytes
	UUID     UUID
	Addr     netip.Addr
	Weekday  Weekday
	Duration time.Duration
	PString  *string
	PText    *Text
	PInt     *int
	PUint    *uint64
	PBool    *bool
	PUUID    *UUID
	PAddr    *netip.Addr
}

type Kinds interface {
	//lockmw:lock k:{a.String}
	String(ctx context.Context, a All) error
	//lockmw:lock {a.Text}
	Text(ctx context.Context, a All) error
	//lockmw:lock {a.String?|lower}-{a.Text?|hash}
	Filtered(ctx context.Context, a *All) error
	//lockmw:lock {a.Int}:{a.Int8}:{a.Int16}:{a.Int32}:{a.Int64}
	Ints(ctx context.Context, a All) error
	//lockmw:lock {a.Uint}/{a.Uint8}/{a.Uint16}/{a.Uint32}/{a.Uint64}/{a.Uintptr}
	Uints(ctx context.Context, a *All) error
	//lockmw:lock {a.Bool}{a.Num}{a.Count}{a.Flag}{a.Duration}
	Named(ctx context.Context, a All) error
	//lockmw:lock {a.Bytes?}%{a.Named?|hash}
	Bytes(ctx context.Context, a All) error
	//lockmw:lock {a.UUID|uuid}:{a.Addr}:{a.Weekday}
	Texts(ctx context.Context, a All) error
	//lockmw:lock p{a.PString?}p{a.PText?|lower}p{a.PInt?|int}p{a.PUint?}p{a.PBool?}p{a.PUUID?}p{a.PAddr?}
	Pointers(ctx context.Context, a All) error
	//lockmw:lock {a.PString?=main}:{a.PInt?=01|int}
	Defaults(ctx context.Context, a All) error
	//lockmw:lock {{{s}}}:{n}:{p?}
	Direct(ctx context.Context, s string, n int64, p *Text) error
}
