package main

import (
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/lockmw"
)

func TestKeysThatNoShellTouchesArePlain(t *testing.T) {
	for _, key := range []string{"order:42", "4", "é_-./@%+,:", "заказ:1"} {
		if !plain(key) || quoted(key) != key {
			t.Errorf("%q: is not plain, and shown as %s", key, quoted(key))
		}
	}
	for _, key := range []string{"", "-x", "~root", "%1", "=ls", "_activeHelp_x", "a b", "a=b", "a'b", "a\x00b", "a\u00a0b", "a\u2019b", "a\xffb", "a\u202eb"} {
		if plain(key) {
			t.Errorf("%q is plain", key)
		}
	}
	for _, r := range " \t\r\n\"#$&'()*;<=>?[\\]^`{|}~!\x7f\u009b" {
		if key := "a" + string(r) + "b"; plain(key) {
			t.Errorf("%q is plain", key)
		}
	}
}

// hard is keys that shells take apart unless they are quoted.
var hard = []string{
	"order:$(touch x)a", "`touch x`", "it's", "''", `a\b`, `a\\`, `\'`, `a"b`, "a b  c", "!!", "~", "=ls", "#", "*?[a]", "{a,b}", "a=b", ";|&<>()", "$'\\n'", "�",
}

func TestAQuotedKeyIsOneWord(t *testing.T) {
	line := "printf '%s\\n'"
	for _, key := range hard {
		line += " " + quoted(key)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
	if want := strings.Join(hard, "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%s\nis %v %q, want %q", line, err, out, want)
	}
}

func TestNoTerminalObeysTheOutput(t *testing.T) {
	key := "a\u009b2J\x7f\x1b[\u202e\u2028\u00ad\U000e0041<é>\U0001f512"
	for _, output := range []string{"text", "json"} {
		var b strings.Builder
		if err := newTable(&b, output).write(lockmw.Info{Key: key}); err != nil {
			t.Fatal(err)
		}
		if got := printable(strings.ReplaceAll(b.String(), "\n", "")); got != strings.ReplaceAll(b.String(), "\n", "") || !strings.Contains(got, "<é>\U0001f512") {
			t.Errorf("%s: %q", output, b.String())
		}
		var said lockmw.Info
		if output == "json" && (json.Unmarshal([]byte(b.String()), &said) != nil || said.Key != key || !strings.Contains(b.String(), `\u009b2J\u007f`)) {
			t.Errorf("it is read as %q: %s", said.Key, b.String())
		}
	}
}

func TestShowTellsWhoWaitsInTheirOrder(t *testing.T) {
	i := lockmw.Info{
		Key: "shop", Held: true, Waiting: 27, Holders: []lockmw.Holder{{Instance: "export-5c9d", Age: 41 * time.Minute, Left: 28 * time.Second}},
		Waiters: []lockmw.Waiter{
			{Instance: "web-7-0123456789", Note: "PUT /shop \x1b[2J\u202e", Waited: 4100 * time.Millisecond},
			{Instance: "web-8\n", Mode: lockmw.Shared, Waited: 90 * time.Second}, {Instance: "batch", Note: "night", Permits: 3},
		},
	}
	var b strings.Builder
	if err := newPage(&b, "text").write(i); err != nil {
		t.Fatal(err)
	}
	const want = `
waiting  27
  1      4.1s     exclusive web-7-0123456789         PUT /shop �[2J�
  2      1m30s    shared    web-8�
  3      -        1 of 3    batch                    night
         and 24 more
`
	if _, got, _ := strings.Cut(b.String(), "TTL    28s"); got != want {
		t.Errorf("show says %s\nwant at its end %s", b.String(), want)
	}
}

func TestALockThatWasHandedOnIsToldUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight
		waits := lockmw.Info{Key: "report", Held: true, Holders: []lockmw.Holder{{Instance: "api-7", Note: "order 7", Age: time.Minute, Left: 90 * time.Second, HandedOn: true}}}
		for what, newWriter := range map[string]func(io.Writer, string) writer{"ls": newTable, "show": newPage} {
			var b strings.Builder
			if err := newWriter(&b, "text").write(waits); err != nil {
				t.Fatal(err)
			}
			want := "handed on until " + time.Date(2000, 1, 1, 0, 1, 30, 0, time.UTC).Local().Format(time.TimeOnly)
			if !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "order 7") || strings.Contains(b.String(), "1m0s") {
				t.Errorf("%s: %q, want %q in it, the note, and no age", what, b.String(), want)
			}
		}
		if got := heldFor(waits); got != 0 {
			t.Errorf("it counts as held for %v", got)
		}
	})
}

func TestTheEndOfACoolDownIsATimeOfDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight
		cools := lockmw.Info{Key: "paid", CoolingDown: true, Holders: []lockmw.Holder{{Instance: "web-7", Left: 90 * time.Second, CoolingDown: true}}}
		for what, newWriter := range map[string]func(io.Writer, string) writer{"ls": newTable, "show": newPage} {
			var b strings.Builder
			if err := newWriter(&b, "text").write(cools); err != nil {
				t.Fatal(err)
			}
			want := "cooling down until " + time.Date(2000, 1, 1, 0, 1, 30, 0, time.UTC).Local().Format(time.TimeOnly)
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q, want %q in it", what, b.String(), want)
			}
		}
	})
}
