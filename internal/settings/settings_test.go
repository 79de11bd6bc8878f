package settings

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheMostSpecificPatternIsTheFirst(t *testing.T) {
	ordered := []string{"shop/pay", "shop/pa*", "shop/*", "sh*/pay", "s*/pay", "s*/*", "*/pay", "*/p*", "*/*"}
	var patterns []Pattern
	for _, text := range ordered {
		p, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Matches("shop", "pay") || p.Matches("other", "mail") != (text == "*/*") {
			t.Errorf("%s matches shop/pay: %v, other/mail: %v", text, p.Matches("shop", "pay"), p.Matches("other", "mail"))
		}
		patterns = append(patterns, p)
	}
	slices.Reverse(patterns)
	slices.SortFunc(patterns, Compare)
	for i, p := range patterns {
		if p.String() != ordered[i] {
			t.Errorf("%d is %s, want %s", i+1, p, ordered[i])
		}
	}
}

func TestWhatIsNoPattern(t *testing.T) {
	for _, text := range []string{"", "shop", "/pay", "shop/", "sh*p/pay", "shop/p*y", "shop/**", "sh op/pay", "shop/pay\n", strings.Repeat("s", 65) + "/x", "shop/" + strings.Repeat("n", 257), "*x/y", "shop/\xff"} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is the pattern %v", text, p)
		}
	}
	if p, err := ParsePattern("shop/order:/x"); err != nil || p != (Pattern{"shop", "order:/x"}) {
		t.Errorf("a name with a slash: %v, %v", p, err)
	}
}

func TestAFileIsReadAsAWhole(t *testing.T) {
	got, err := ParseFile([]byte(` {"shop/pay": {"wait": "none", "maxHold": "2m", "ttl": "7s", "for": "1h", "author": "ada", "reason": "INC-42"},
		"*/*": {"off": true, "until": "2026-11-28T15:00:00+01:00"}} `))
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	want := Entry{Change: Change{Wait: None, MaxHold: 2 * time.Minute, TTL: 7 * time.Second}, Author: "ada", Reason: "INC-42", Lasts: time.Hour}
	if e := got[Pattern{"shop", "pay"}]; e != want || e.String() != "wait=none maxHold=2m0s ttl=7s" {
		t.Errorf("%+v, want %+v", e, want)
	}
	off := got[Pattern{"*", "*"}]
	if left, ends := off.Left(time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC), 0); !off.Off || !ends || left != time.Hour {
		t.Errorf("%+v: %v are left", off, left)
	}
	for _, text := range []string{
		"", "[]", "null", "null x", `{"shop/pay": {"wait": "5s"}} {}`, `{"shop/pay": "wait=5s"}`, `{"shop": {"wait": "5s"}}`,
		`{"shop/pay": {}}`, `{"shop/pay": {"wait": "0s"}}`, `{"shop/pay": {"wait": "5"}}`, `{"shop/pay": {"wait": 5}}`, `{"shop/pay": {"wait": "-5s"}}`,
		`{"shop/pay": {"maxHold": "3µs"}}`, `{"shop/pay": {"ttl": "none"}}`, `{"shop/pay": {"ttl": "999ms"}}`, `{"shop/pay": {"ttl": "1h1s"}}`, `{"shop/pay": {"off": "yes"}}`, `{"shop/pay": {"shadow": "yes"}}`,
		`{"shop/pay": {"minHold": "5s"}}`, `{"shop/pay": {"prefix": "x"}}`, `{"shop/pay": {"Wait": "5s"}}`,
		`{"shop/pay": {"wait": "5s", "for": "1h", "until": "2026-11-28T15:00:00Z"}}`, `{"shop/pay": {"off": true, "for": "1h"}}`, `{"shop/pay": {"shadow": true, "for": "1h"}}`, `{"shop/pay": {"wait": "5s", "for": 5}}`, `{"shop/pay": {"wait": "5s", "for": "1ms"}}`,
		`{"shop/pay": {"wait": "5s", "until": "soon"}}`, `{"shop/pay": {"wait": "5s", "until": 1}}`, `{"shop/pay": {"wait": "5s", "author": "a\nb"}}`,
		`{"shop/pay": {"wait": "5s"}, "shop/mail": {"wait": "soon"}}`, `{"shop/pay": {"wait": "5s"`,
		`{"shop/pay": {"wait": "5s"}, "shop/pay": {"wait": "6s"}}`, `{"shop/pay": {"wait": "5s"}, "shop/p\u0061y": {"wait": "6s"}}`, `{"shop/pay": {"wait": "5s", "wait": "6s"}}`, `{"shop/pay": null}`,
		`{"shop/pay": {"wait": "5s", "until": "9999-12-31T23:59:59-01:00"}}`, `{"shop/pay": {"wait": "5s", "until": "12026-11-28T15:00:00Z"}}`, `{"shop/pay": {"wait": "5s", "author": "ada", "author": "eve"}}`,
	} {
		if got, err := ParseFile([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

func TestWhatStandsInRedisIsReadAsItWasWritten(t *testing.T) {
	e := Entry{Change: Change{Wait: 5 * time.Second, TTL: time.Minute, Shadow: False}, Author: "ada@host", Reason: `"INC" <42>`, Set: 1_700_000_000_000_000, Over: 1_700_000_060_000_000}
	text, err := e.Format()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil || got != e {
		t.Errorf("%s\nis read as %+v, %v, want %+v", text, got, err, e)
	}
	if left, ends := got.Left(time.Now(), 1_700_000_059_000_000); left != time.Second || !ends {
		t.Errorf("%v are left", left)
	}
	for _, text := range []string{`{"off": true}`, `{"wait": "5s", "for": "1h"}`, `{"wait": "5s", "until": "2026-11-28T15:00:00Z"}`, `{"wait": "5s", "until": 0}`, `{"wait": "5s", "until": 1.5}`, `{"wait":"5s","set":"x"}`, "wait=5s", "",
		`{"off": false}`, `{"wait": "5s", "off": false}`, `{"wait":"5s","wait":"6s"}`, `{"wait":"5s"} x`, `{"wait":"5s"}{}`, `{"ttl":"2h"}`,
		`{"wait":"5s","until":253402300800000000}`, `{"wait":"5s","set":253402300800000000}`, `{"wait":"5s","until":9000000000000000000}`, "null", "[]"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
	for _, e := range []Entry{{}, {Change: Change{Off: true}}, {Change: Change{Wait: None}, Author: "a\x1b"}, {Change: Change{Wait: None}, Reason: strings.Repeat("r", 257)}, {Change: Change{Wait: None}, Over: latest + 1}} {
		if text, err := e.Format(); err == nil {
			t.Errorf("%+v is written as %s", e, text)
		}
	}
}

func TestAFieldThatThereIsNotIsToldWithThoseThatThereAre(t *testing.T) {
	var c Change
	if err := c.Set("minHold", "5s"); err == nil || !strings.HasSuffix(err.Error(), "there are wait, maxHold, ttl, shadow") {
		t.Error(err)
	}
	if _, err := ParseFile([]byte(`{"shop/pay": {"minHold": "5s"}}`)); err == nil || !strings.Contains(err.Error(), "wait, maxHold, ttl, shadow, off") {
		t.Error(err)
	}
	for _, value := range []string{"true", "false", ""} {
		if err := c.Set(Off, value); !errors.Is(err, ErrOff) {
			t.Error(err)
		}
	}
}

// Like shadow: false, off: false is an entry, which stands in the place of a less specific one.
func TestOffMayBeFalseInAFile(t *testing.T) {
	got, err := ParseFile([]byte(`{"shop/*": {"off": true}, "shop/pay": {"off": false}, "shop/mail": {"off": false, "wait": "5s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if e := got[Pattern{"shop", "pay"}]; e != (Entry{}) {
		t.Errorf("%+v", e)
	}
	if e := got[Pattern{"shop", "mail"}]; e.Off || e.Wait != 5*time.Second {
		t.Errorf("%+v", e)
	}
}

func TestATimeWithAnOffsetIsTheSameEntry(t *testing.T) {
	read := func(until string) Entry {
		t.Helper()
		got, err := ParseFile([]byte(`{"shop/pay": {"wait": "5s", "until": "` + until + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return got[Pattern{"shop", "pay"}]
	}
	first := read("2026-11-28T20:30:00+05:30")
	if again := read("2026-11-28T20:30:00+05:30"); again != first {
		t.Errorf("%+v is not %+v", again, first)
	}
	if utc := read("2026-11-28T15:00:00Z"); utc != first {
		t.Errorf("%+v is not %+v", utc, first)
	}
}

// An end that is further away than a time.Duration counts is still one in the future.
func TestAnEndThatIsFarAwayIsNotOver(t *testing.T) {
	now := time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)
	for _, e := range []Entry{{Over: now.AddDate(295, 0, 0).UnixMicro()}, {Over: latest}, {Over: math.MaxInt64}, {Until: now.AddDate(7000, 0, 0)}} {
		if left, ends := e.Left(now, now.UnixMicro()); left < 290*365*24*time.Hour || !ends {
			t.Errorf("%v are left of %+v", left, e)
		}
	}
	if left, ends := (Entry{Over: 1}).Left(now, math.MaxInt64); left > 0 || !ends {
		t.Errorf("%v are left of what is over", left)
	}
}

func TestAnErrorOfAFileSaysWhereAndWhatIsNotTaken(t *testing.T) {
	var many strings.Builder
	for i := range 12 {
		fmt.Fprintf(&many, `, "shop/%d": {"wait": "5s"}`, i)
	}
	for _, test := range []struct{ text, want string }{
		{"", "line 1: it is no JSON object: unexpected end of JSON input"},
		{"null", "line 1: it is no JSON object"},
		{"[\n]", "line 1: it is no JSON object"},
		{"{\n  \"shop/pay\": {\"wait\": \"5s\"},\n}\n", "line 3: it is no JSON object: invalid character '}' looking for beginning of object key string; not taken: shop/pay, what stands behind them"},
		{"{\n  \"shop/pay\": {\"wait\" \"5s\"}\n}", `line 2: it is no JSON object: invalid character '"' after object key; not taken: shop/pay, what stands behind them`},
		{"{\"shop/pay\": {\"wait\": \"5s\n\"}}", `line 1: it is no JSON object: invalid character '\n' in string literal; not taken: shop/pay, what stands behind them`},
		{"{\n  \"shop/pay\": {\n\"wait\": \"5s\"", "line 3: it is no JSON object: unexpected end of JSON input; not taken: shop/pay, what stands behind them"},
		{"{\"shop/pay\": {\"wait\": \"5s\"}}\n{}", "line 2: it is no JSON object: invalid character '{' after top-level value; not taken: shop/pay, what stands behind them"},
		{"{\n\"shop/mail\": {\"wait\": \"5s\"},\n\n\"shop/pay\": {\n\"wait\": \"soon\"}}", `line 4: shop/pay: wait: "soon" is no duration such as 5s, or none; not taken: shop/mail, shop/pay`},
		{"{\n\"shop/pay\": {\"wait\": \"1d\"}}", `line 2: shop/pay: wait: "1d": there is no unit for days: use 24h; not taken: shop/pay`},
		{"{\n\"shop\": {\"wait\": \"5s\"}}", `line 2: "shop" is not service/name, such as shop/pay, shop/* or */pay; not taken: "shop"`},
		{"{\"shop/pay\": {\"wait\": \"5s\"},\n\"shop/pay\": {}, \"shop/mail\": {}}", `line 2: "shop/pay" is there twice; not taken: shop/pay, what stands behind them`},
		{"{\"shop/pay\": {\"wait\": \"5s\", \"wait\": \"6s\"}}", `line 1: shop/pay: "wait" is there twice; not taken: shop/pay`},
		{`{"shop/pay": {}` + many.String() + "}", "line 1: shop/pay: it changes nothing: give it one of wait, maxHold, ttl, shadow, off; not taken: shop/pay, shop/0, shop/1, shop/2, shop/3, shop/4, shop/5, shop/6, shop/7, shop/8, 3 more"},
	} {
		if _, err := ParseFile([]byte(test.text)); err == nil || err.Error() != test.want {
			t.Errorf("%s\nis refused with\n%v\nwant\n%s", test.text, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"wait":"5s","author":"ada","set":1,"until":2}`)
	f.Add(`{"maxHold":"none","ttl":"1m"}`)
	f.Add(`{"wait":"5s","wait":"6s","off":false}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		written, err := e.Format()
		if err != nil {
			t.Fatalf("%s is read as %+v, which cannot be written: %v", text, e, err)
		}
		if again, err := Parse(written); err != nil || again != e {
			t.Errorf("%+v is written as %s and read as %+v, %v", e, written, again, err)
		}
	})
}

func TestOfManyNamesTheFirstAreTold(t *testing.T) {
	many := slices.Repeat([]string{"pay"}, 25)
	for _, tc := range []struct {
		all  []string
		more bool
		n    int
		last string
	}{
		{nil, false, 0, ""},
		{many[:20], false, 20, "pay"},
		{many, false, 21, "… and 5 more"},
		{many[:1], true, 2, "… and more"},
		{many, true, 21, "… and more"},
		{nil, true, 1, "… and more"},
	} {
		got := First(tc.all, tc.more)
		if len(got) != tc.n || tc.n > 0 && got[tc.n-1] != tc.last {
			t.Errorf("of %d, and more %v: %q", len(tc.all), tc.more, got)
		}
	}
}
