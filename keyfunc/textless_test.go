package keyfunc_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/keyfunc"
)

type (
	// A stamped embeds a time.Time, whose text it has, and loses its ID.
	stamped struct {
		time.Time
		ID int
	}
	// A hosted embeds an address, whose text it has, and loses its port.
	hosted struct {
		netip.Addr
		Port int
	}
	// A linked has its text by a pointer, and by way of another struct.
	linked struct {
		ID int
		*inner
	}
	inner struct{ url.URL }
	// An alone has nothing beside what it embeds, so its text is whole.
	alone struct{ netip.Addr }
	// An owner has a text of its own beside what it embeds.
	owner struct {
		netip.Addr
		Port int
	}
	// A day is made from time.Time and says itself which part counts.
	day time.Time
	// A message is what protobuf generates.
	message struct{ id string }
	// A wrapped embeds a message by its pointer.
	wrapped struct{ *message }
	// An interfaced has its text from an interface.
	interfaced struct {
		ID int
		fmt.Stringer
	}
)

func (o owner) String() string               { return fmt.Sprintf("%v:%d", o.Addr, o.Port) }
func (o owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
func (d day) String() string                 { return time.Time(d).UTC().Format(time.DateOnly) }
func (m *message) String() string            { return "id:" + m.id }
func (*message) ProtoReflect() any           { return nil }

func TestValueWhoseTextIsNotItsOwnIsRefused(t *testing.T) {
	now, addr := time.Unix(1e9, 0), netip.MustParseAddr("10.0.0.1")
	for _, tc := range []struct {
		name  string
		value any
		why   string
	}{
		{"time", now.UTC(), "zone"},
		{"the same time elsewhere", now.In(time.FixedZone("", 3600)), "zone"},
		{"pointer to a time", &now, "zone"},
		{"nil pointer to a time", (*time.Time)(nil), "zone"},
		{"embedded time", stamped{now, 42}, "embedded"},
		{"pointer to one that embeds a time", &stamped{now, 42}, "embedded"},
		{"embedded address", hosted{addr, 80}, "embedded"},
		{"embedded twice", linked{42, &inner{url.URL{Host: "a"}}}, "embedded"},
		{"embedded interface", interfaced{42, addr}, "embedded"},
		{"embedded alone", alone{addr}, "embedded"},
		{"message", &message{"42"}, "protobuf"},
		{"embedded message", wrapped{&message{"42"}}, "protobuf"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := call{values: map[string]any{"v": tc.value}}
			for range 2 { // what is known of a type is kept
				wantErr(t, keyfunc.Value("v"), r, keyfunc.ErrMisuse)
				wantErr(t, keyfunc.MustParse("x{value.v?}"), r, keyfunc.ErrInvalidValue)
				if _, err := keyfunc.Value("v")(r); err == nil || !strings.Contains(err.Error(), tc.why) || strings.Contains(err.Error(), "42") {
					t.Errorf("%v; want one about %s", err, tc.why)
				}
			}
		})
	}
	for want, value := range map[string]any{
		"10.0.0.1:80": owner{addr, 80},
		"2001-09-09":  day(now),
		"10.0.0.1":    addr,
	} {
		wantKey(t, keyfunc.Value("v"), call{values: map[string]any{"v": value}}, want)
	}
}

// What is known of a type is kept: looking into it again would cost hundreds.
func TestValueWithATextCostsFewAllocations(t *testing.T) {
	r := call{values: map[string]any{"v": owner{netip.MustParseAddr("10.0.0.1"), 80}}}
	direct := testing.AllocsPerRun(100, func() { _, _ = r.values["v"].(owner).MarshalText() })
	f := keyfunc.Value("v")
	got := testing.AllocsPerRun(100, func() { _, _ = f(r) })
	for try := 0; try < 5 && got > direct+4; try++ { // what else the process does counts, too, and a pool may have been emptied
		got = testing.AllocsPerRun(100, func() { _, _ = f(r) })
	}
	if got > direct+4 {
		t.Errorf("%v allocations, want at most %v", got, direct+4)
	}
}
