package browsertest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The page says in red that work runs without its lock, and what operators have changed, since when, by whom and why. It
// forgets that when it is over.
func TestLiveSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"*/pay": {"off": true, "until": "` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) + `", "author": "ada<b>", "reason": "INC-42"}, "*/mail": {"wait": "5s"},` +
		`"*/pya": {"off": true}, "*/report": {"off": true}, "*/odd": {"off": true, "ttl": "4s"}}`)
	locks, err := lockmw.New(redistest.Embedded(t).Client(t), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff(),
		lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(t.Context()) }) // whose context has ended then
	hold(t, locks, "k", "", lockmw.Policy{Name: "pay"})
	hold(t, locks, "t", "", lockmw.Policy{Name: "tried", Shadow: true})
	hold(t, locks, "o", "", lockmw.Policy{Name: "odd"}) // another field of its setting does not fit
	report := lockmw.Flight{Policy: lockmw.Policy{Name: "report"}}
	if _, _, err := lockmw.Do(t.Context(), locks, "r", report, func(context.Context) (int, error) { return 0, nil }); err != nil { // which ignores off
		t.Fatal(err)
	}
	server := httptest.NewServer(lockadmin.Handler(locks))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p := open(t, server.URL)
	p.until("the warning", `!document.querySelector("#off").hidden`)
	text := eval[string](p, `document.querySelector("#off").innerText`)
	if text != "OFF: work runs without its lock in this process, by */pay." {
		t.Errorf("it warns: %s", text)
	}
	for kind, want := range map[string]string{"off": "*/pay", "refused": "*/odd */report"} {
		if got := eval[string](p, `[...document.querySelectorAll("#settings-list li[data-kind=`+kind+`] .pattern")].map((e) => e.innerText).sort().join(" ")`); got != want {
			t.Errorf("%s are listed as %s, want %s", got, kind, want)
		}
	}
	for _, banner := range []string{"#off", "#shadow"} {
		if red := eval[bool](p, `(() => { const [r, g, b] = getComputedStyle(document.querySelector("`+banner+`")).backgroundColor.match(/[\d.]+/g).map(Number); return r > g + 60 && r > b + 60 })()`); !red {
			t.Errorf("%s does not warn in red", banner)
		}
	}
	p.until("the trial", `!document.querySelector("#shadow").hidden`)
	if text := eval[string](p, `document.querySelector("#shadow").innerText`); !strings.Contains(text, "IN SHADOW: tried locks nobody out") {
		t.Errorf("it warns: %s", text)
	}
	list := eval[string](p, `document.querySelector("#settings").innerText`)
	for _, want := range []string{"*/pay", "ada<b>", "INC-42", "a file", "until", "applies to pay", "*/mail", "wait=5s", "*/pya", "applies to no name"} {
		if !strings.Contains(list, want) {
			t.Errorf("the settings do not say %q: %s", want, list)
		}
	}
	write(`{"*/pay": {"off"`)
	p.until("that the file cannot be used", `document.querySelector("#settings").innerText.includes("cannot be used: what was read before stays")`)
	write(`{}`)
	p.until("nothing is changed any more", `document.querySelector("#off").hidden && document.querySelector("#settings").hidden`)
}
