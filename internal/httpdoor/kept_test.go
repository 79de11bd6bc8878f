package httpdoor

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
)

func TestKeptHeaderIsWhatTheHandlerHasChanged(t *testing.T) {
	before := http.Header{"X-Trace": {"1"}, "Vary": {"Origin"}, "X-Removed": {"1"}, "Connection": {"keep-alive"}, "X-None": nil}
	for name, tc := range map[string]struct {
		change func(h http.Header)
		want   http.Header // beside X-Removed
		added  http.Header
		fails  bool
	}{
		"nothing":               {change: func(http.Header) {}},
		"the same again":        {change: func(h http.Header) { h.Set("X-Trace", "1") }},
		"one more line":         {change: func(h http.Header) { h.Add("Vary", "Accept") }, added: http.Header{"Vary": {"Accept"}}},
		"another line":          {change: func(h http.Header) { h["Vary"] = []string{"Accept", "Origin"} }, want: http.Header{"Vary": {"Accept", "Origin"}}},
		"a new name":            {change: func(h http.Header) { h.Set("Location", "/receipts/7") }, want: http.Header{"Location": {"/receipts/7"}}},
		"not in its usual case": {change: func(h http.Header) { h["x-odd"] = []string{"1"} }, want: http.Header{"x-odd": {"1"}}},
		"none wanted":           {change: func(h http.Header) { h["Content-Type"] = nil }, want: http.Header{"Content-Type": nil}},
		"cookies":               {change: func(h http.Header) { h.Set("Set-Cookie", "a=b"); h["set-cookie"] = []string{"a=b"} }},
		"of the connection":     {change: func(h http.Header) { h.Set("Connection", "close, x-hop"); h.Set("X-Hop", "1"); h.Set("Upgrade", "tls") }},
		"recomputed":            {change: func(h http.Header) { h.Set("Content-Length", "4"); h.Set("Date", "now") }},
		"no name":               {change: func(h http.Header) { h["X A"] = []string{"1"}; h[""] = []string{"1"} }},
		"an encoder inside":     {change: func(h http.Header) { h.Set("Content-Encoding", "gzip") }, want: http.Header{"Content-Encoding": {"gzip"}}},
		"two lines in one":      {change: func(h http.Header) { h.Set("X-A", " a\r\nSet-Cookie: b ") }, want: http.Header{"X-A": {"a  Set-Cookie: b"}}},
		"a control character":   {change: func(h http.Header) { h.Set("X-A", "a\x00") }, fails: true},
		"no UTF-8":              {change: func(h http.Header) { h.Set("X-A", "J\xfcrgen") }, fails: true},
	} {
		after := before.Clone()
		after.Del("X-Removed")
		tc.change(after)
		want := http.Header{"X-Removed": nil}
		maps.Copy(want, tc.want)
		added := http.Header{}
		maps.Copy(added, tc.added)
		if tc.fails {
			want, added = nil, nil
		}
		got, more, ok := changed(before, after)
		if ok == tc.fails || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(more, added) {
			t.Errorf("%s: kept %v and %v, %v; want %v and %v", name, got, more, ok, want, added)
		}
		if err := (Answer{Status: 200, Header: got}).check(); err != nil {
			t.Errorf("%s: what is kept is refused: %v", name, err)
		}
	}
}

func TestReplayLeavesTheHeaderOfMiddleware(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("X-Trace", "2")
	w.Header().Set("Vary", "Origin")
	w.Header().Set("X-Removed", "2")
	Answer{Status: http.StatusNoContent, Header: http.Header{"X-Removed": nil}, Added: http.Header{"Vary": {"Accept"}}}.writeTo(w)
	want := http.Header{"X-Trace": {"2"}, "Vary": {"Origin", "Accept"}, "X-Removed": nil, "Idempotent-Replayed": {"true"}}
	if got := w.Header(); w.Code != http.StatusNoContent || !reflect.DeepEqual(got, want) {
		t.Errorf("answer = %d %v, want 204 %v", w.Code, got, want)
	}
}

func TestCodecGivesBackWhatItWasGiven(t *testing.T) {
	for _, a := range []Answer{
		{Status: 200},
		{Status: 201, Header: http.Header{"X-A": {"b", "\n"}, "X-B": nil}, Body: []byte("a\nb\x00\xff\n")},
		bareFact,
	} {
		data, err := httpCodec{}.Encode("k", a)
		if err != nil {
			t.Fatal(err)
		}
		var got Answer
		if err := (httpCodec{}).Decode("k", data, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(a) {
			t.Errorf("%q gives %v, %v; want %v", data, got, err, a)
		}
	}
	body := strings.Repeat("x", 900)
	data, err := httpCodec{}.Encode("k", Answer{Status: 200, Body: []byte(body)})
	if err != nil || len(data) > 950 {
		t.Errorf("%d bytes, %v; want the body as it is and a short line", len(data), err)
	}
}

func TestWhatNoHandlerHasAnsweredIsNotGiven(t *testing.T) {
	read := func(data string) error {
		var a Answer
		if err := (httpCodec{}).Decode("k", []byte(data), &a); err != nil {
			return err
		}
		return a.check()
	}
	for _, data := range []string{
		"", "{}", "{}\n", "{\n", `{"status":199}` + "\n", `{"status":200,"header":{"Set-Cookie":["a"]}}` + "\n", `{"status":200,"header":{"X-A":["a\u0000"]}}` + "\n",
		`{"status":200,"added":{"Set-Cookie":["a"]}}` + "\n",
	} {
		if err := read(data); err == nil || errors.Is(err, lockmw.ErrAnswerNotKept) {
			t.Errorf("%q: %v, want an error of its own", data, err)
		}
	}
	if err := read(`{"status":200}` + "\nbody"); err != nil {
		t.Error(err)
	}
	if err := read(`{"not_kept":true}` + "\n"); !errors.Is(err, lockmw.ErrAnswerNotKept) {
		t.Errorf("the bare fact: %v", err)
	}
}
