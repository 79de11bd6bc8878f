package keyfunc_test

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/lockmw/kit/keyfunc"
)

type (
	tenantID string
	userID   uint64
	flag     bool
	raw      []byte
	masked   string  // String hides it
	level    int     // String names it
	celsius  float64 // a float that knows its text
)

func (masked) String() string    { return "***" }
func (level) String() string     { return "high" }
func (c celsius) String() string { return fmt.Sprintf("%.1f", float64(c)) }

// unmarshalable has a MarshalText that fails and tells its value.
type unmarshalable struct{ s string }

func (u unmarshalable) MarshalText() ([]byte, error) { return nil, errors.New(u.s) }

// both has two texts.
type both struct{}

func (both) MarshalText() ([]byte, error) { return []byte("text"), nil }
func (both) String() string               { return "string" }

func TestValueHasTheTextOfItsType(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value any
		want  string
	}{
		{"string", "shop", "shop"},
		{"named string", tenantID("shop"), "shop"},
		{"bytes", []byte("shop"), "shop"},
		{"named bytes", raw("shop"), "shop"},
		{"int", -7, "-7"},
		{"int8", int8(-7), "-7"},
		{"int16", int16(-7), "-7"},
		{"int32", int32(-7), "-7"},
		{"int64", int64(-1 << 63), "-9223372036854775808"},
		{"uint", uint(7), "7"},
		{"uint8", uint8(7), "7"},
		{"uint16", uint16(7), "7"},
		{"uint32", uint32(7), "7"},
		{"uint64", uint64(1<<64 - 1), "18446744073709551615"},
		{"uintptr", uintptr(7), "7"},
		{"named uint64", userID(7), "7"},
		{"bool", true, "true"},
		{"named bool", flag(false), "false"},
		{"string that hides itself", masked("shop"), "shop"},
		{"integer that has a name", level(3), "3"},
		{"duration", time.Second, "1000000000"},
		{"text marshaler", netip.MustParseAddr("10.0.0.1"), "10.0.0.1"},
		{"pointer with text", big.NewInt(42), "42"},
		{"bytes with text", net.ParseIP("10.0.0.1").To16(), "10.0.0.1"},
		{"stringer", &url.URL{Host: "example.com", Path: "/a"}, "//example.com/a"},
		{"float with text", celsius(36.6), "36.6"},
		{"text marshaler and stringer", both{}, "text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := call{values: map[string]any{"v": tc.value}}
			wantKey(t, keyfunc.Value("v"), r, tc.want)
			wantKey(t, keyfunc.MustParse("{value.v}"), r, tc.want)
		})
	}
}

func TestValueWithoutDefiniteTextIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value any
	}{
		{"struct", struct{ ID int }{42}},
		{"pointer", new(int)},
		{"nil pointer", (*int)(nil)},
		{"float", 1.5},
		{"map", map[string]int{}},
		{"slice", []string{"a"}},
		{"array of bytes", [4]byte{}},
		{"error", errors.New("x")},
		{"text that fails", unmarshalable{"x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := call{values: map[string]any{"v": tc.value}}
			wantErr(t, keyfunc.Value("v"), r, keyfunc.ErrInvalidValue)
			wantErr(t, keyfunc.MustParse("x{value.v?}"), r, keyfunc.ErrInvalidValue)
		})
	}
}

func TestValueWithoutTextIsMissing(t *testing.T) {
	for _, value := range []any{"", []byte(nil), net.IP(nil), tenantID(""), nil, (*big.Int)(nil), (*url.URL)(nil)} {
		r := call{values: map[string]any{"v": value}}
		wantErr(t, keyfunc.Value("v"), r, keyfunc.ErrMissing)
		wantKey(t, keyfunc.MustParse("x{value.v?}"), r, "x")
	}
}
