package lockmw_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

func TestJSONIsReadBack(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  string
	}{
		{lockmw.Exclusive, `"exclusive"`},
		{lockmw.Shared, `"shared"`},
		{lockmw.Holder{Instance: "ab", Age: 1500 * time.Millisecond, Left: 30 * time.Second}, `{"instance":"ab","age":"1.5s","left":"30s"}`},
		{lockmw.Holder{Left: -1}, `{}`}, // a program that is not ours, without a TTL
		{lockmw.Holder{}, `{"left":"0s"}`},
		{lockmw.Waiter{Instance: "ab", Note: "<n>", Mode: lockmw.Shared, Waited: 1500 * time.Millisecond}, `{"instance":"ab","note":"\u003cn\u003e","mode":"shared","waited":"1.5s"}`},
		{lockmw.Waiter{Permits: 3}, `{"mode":"exclusive","permits":3}`},
	} {
		got, err := json.Marshal(tc.value)
		if err != nil || string(got) != tc.want {
			t.Errorf("%+v is %s, %v; want %s", tc.value, got, err, tc.want)
		}
		var back any
		switch tc.value.(type) {
		case lockmw.Mode:
			var m lockmw.Mode
			err = json.Unmarshal(got, &m)
			back = m
		case lockmw.Waiter:
			var w lockmw.Waiter
			err = json.Unmarshal(got, &w)
			back = w
		default:
			var h lockmw.Holder
			err = json.Unmarshal(got, &h)
			back = h
		}
		if err != nil || back != tc.value {
			t.Errorf("%s read back is %+v, %v", got, back, err)
		}
	}
	var h lockmw.Holder
	var m lockmw.Mode
	var w lockmw.Waiter
	for _, tc := range []struct {
		text string
		into any
		want string
	}{
		{`{"age":"long"}`, &h, `lockmw: holder: age: time: invalid duration "long"`},
		{`{"left":7}`, &h, `lockmw: holder: json: cannot unmarshal number into Go struct field holderText.left of type string`},
		{`{"waited":"long"}`, &w, `lockmw: waiter: waited: time: invalid duration "long"`},
		{`{"mode":7}`, &w, `lockmw: waiter: json: cannot unmarshal number into Go struct field waiterText.mode of type lockmw.Mode`},
		{`"Shared"`, &m, `lockmw: mode "Shared" is neither "exclusive" nor "shared"`},
	} {
		if err := json.Unmarshal([]byte(tc.text), tc.into); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.text, err, tc.want)
		}
	}
	if _, err := json.Marshal(lockmw.Mode(7)); err == nil {
		t.Error("a mode that does not exist is written")
	}
}
