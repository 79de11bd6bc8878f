package settings

import (
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
		`{"shop/pay": {"maxHold": "3µs"}}`, `{"shop/pay": {"ttl": "none"}}`, `{"shop/pay": {"ttl": "99ms"}}`, `{"shop/pay": {"off": false}}`, `{"shop/pay": {"off": "yes"}}`, `{"shop/pay": {"shadow": "yes"}}`,
		`{"shop/pay": {"minHold": "5s"}}`, `{"shop/pay": {"prefix": "x"}}`, `{"shop/pay": {"Wait": "5s"}}`,
		`{"shop/pay": {"wait": "5s", "for": "1h", "until": "2026-11-28T15:00:00Z"}}`, `{"shop/pay": {"wait": "5s", "for": 5}}`, `{"shop/pay": {"wait": "5s", "for": "1ms"}}`,
		`{"shop/pay": {"wait": "5s", "until": "soon"}}`, `{"shop/pay": {"wait": "5s", "until": 1}}`, `{"shop/pay": {"wait": "5s", "author": "a\nb"}}`,
		`{"shop/pay": {"wait": "5s"}, "shop/mail": {"wait": "soon"}}`, `{"shop/pay": {"wait": "5s"`,
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
	for _, text := range []string{`{"off": true}`, `{"wait": "5s", "for": "1h"}`, `{"wait": "5s", "until": "2026-11-28T15:00:00Z"}`, `{"wait": "5s", "until": 0}`, `{"wait": "5s", "until": 1.5}`, `{"wait":"5s","set":"x"}`, "wait=5s", ""} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
	for _, e := range []Entry{{}, {Change: Change{Off: true}}, {Change: Change{Wait: None}, Author: "a\x1b"}, {Change: Change{Wait: None}, Reason: strings.Repeat("r", 257)}} {
		if text, err := e.Format(); err == nil {
			t.Errorf("%+v is written as %s", e, text)
		}
	}
}

func TestAFieldThatThereIsNotIsToldWithThoseThatThereAre(t *testing.T) {
	var c Change
	if err := c.Set("minHold", "5s"); err == nil || !strings.Contains(err.Error(), "wait, maxHold, ttl, shadow, off") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"wait":"5s","author":"ada","set":1,"until":2}`)
	f.Add(`{"maxHold":"none","ttl":"1m"}`)
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
