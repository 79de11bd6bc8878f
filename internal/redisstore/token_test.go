package redisstore

import (
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/store"
)

// What a script cuts tokens, values and messages at.
const cutters = ".:= ~!*{}\n\x00"

func TestATokenSaysWhoMadeItAndWhy(t *testing.T) {
	for _, name := range []string{"web-1", "web-1.prod.example", "a b:c=d{e}", "ü", "%41", "100%", strings.Repeat("x", 64)} {
		locker := newName(name)
		if strings.ContainsAny(locker, cutters) {
			t.Errorf("locker %q", locker)
		}
		for _, note := range []string{"", "req-42", "a.b:c=d ~!*{}", "日本語", "%2E", "GET /orders?x=1&y=2"} {
			token := newToken(locker, note)
			if n := strings.Count(token, "."); n > 2 || strings.ContainsAny(strings.ReplaceAll(token, ".", ""), cutters) {
				t.Errorf("token %q", token)
			}
			instance, said := readToken(token)
			if digits, ok := strings.CutPrefix(instance, name+"-"); !ok || len(digits) != digitsOfName || said != note {
				t.Errorf("%q says %q and %q, want %q with digits and %q", token, instance, said, name, note)
			}
		}
	}
}

func TestNoTwoProcessesOfOneName(t *testing.T) {
	seen := make(map[string]bool)
	for range 10_000 {
		if p := newName("web"); seen[p] {
			t.Fatalf("%s again", p)
		} else {
			seen[p] = true
		}
	}
}

func TestALongNoteIsCutBetweenCharacters(t *testing.T) {
	for n := range 5 {
		note := strings.Repeat("x", n) + strings.Repeat("日", 100)
		_, said := readToken(newToken(newName("web"), note))
		if !strings.HasPrefix(note, said) || len(said) > store.MostOfNote || len(said) < store.MostOfNote-3 {
			t.Errorf("%d bytes: %q", len(said), said)
		}
	}
}

// Another program may write what it likes.
func TestForeignTokensSayNothingHarmful(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123"
	for token, want := range map[string][2]string{
		"":                       {},
		"mine":                   {},
		"a.b":                    {},
		"web." + id:              {},
		"0123456789abcdeg." + id: {},
		"0123456789abcdef." + id: {"0123456789abcdef", ""}, // one before lockers had names
		"web-0123456789.short":   {},
		"web-0123456789." + id:   {"web-0123456789", ""},
		"web%1B[2J-0123456789." + id + ".%0Aq%07":     {"web\uFFFD[2J-0123456789", "\uFFFDq\uFFFD"},
		"web%ZZ-0123456789." + id + ".%":              {"web%ZZ-0123456789", "%"},
		"\xff\xfe-0123456789." + id + ".%E2%80%AEgpj": {"\uFFFD\uFFFD-0123456789", "\uFFFDgpj"},
	} {
		if instance, note := readToken(token); instance != want[0] || note != want[1] {
			t.Errorf("%q says %q and %q, want %q", token, instance, note, want)
		}
	}
}
