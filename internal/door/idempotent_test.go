package door_test

import (
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

func TestKeyOfOneThingThatClientsChooseIsNobodys(t *testing.T) {
	for template, alone := range map[string]string{
		"{header.Idempotency-Key}":                 "{value.user}:{header.Idempotency-Key|idempotency}",
		"pay:{header.X-Key}":                       "{value.user}:{header.X-Key|idempotency}",
		"{method}:{header.X-Key}":                  "{value.user}:{header.X-Key|idempotency}",
		"{body.request_id}":                        "{value.user}:{body.request_id}",
		"{body.request_id}:{body.request_id|hash}": "{value.user}:{body.request_id}",
		"{value.user}:{header.X-Key}":              "",
		"{value.user}:{body.request_id}":           "",
		"{header.X-User}:{header.X-Key}":           "",
		"{header.X-User}:{body.request_id}":        "",
		"{body.user}:{body.request_id}":            "",
		"{cookie.session}:{header.X-Key}":          "",
		"{param.id}":                               "",
		"pay:{query.shop}":                         "",
	} {
		sample := &door.Sample{CallMethod: "POST", HTTP: true, Params: true}
		if err := sample.Ask(keyfunc.MustParse(template)); err != nil {
			t.Fatal(err)
		}
		err := door.WhoseKey(sample)
		switch {
		case alone == "" && err != nil:
			t.Errorf("%s: %v", template, err)
		case alone != "" && (err == nil || !strings.Contains(err.Error(), alone)):
			t.Errorf("%s: %v, want the advice %s", template, err, alone)
		}
	}
}
