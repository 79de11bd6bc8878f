package lockmw_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A lease, a holder and a mode read well, in text, in logs and in JSON; a token is in
// none of them.
func TestTextsAreReadable(t *testing.T) {
	inScene(t, func(s scene) {
		p := lockmw.Policy{Name: "pay", Prefix: "order:"}
		lease := s.holdsFor(s.locks, p, 1200*time.Millisecond)
		fence := lease.Fence()
		token, _, _ := strings.Cut(s.client.Get(context.Background(), "lock:{order:42}").Val(), ":")
		_, secret, _ := strings.Cut(token, ".")
		info := mustInspect(s, s.elsewhere, "order:42")
		inJSON, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		var back lockmw.Info
		if err := json.Unmarshal(inJSON, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(info) {
			t.Errorf("%+v read back is %+v, %v", info, back, err)
		}
		var line strings.Builder
		logger := slog.New(slog.NewTextHandler(&line, nil))
		logger.Info("works", "lease", lease)
		_, logged, _ := strings.Cut(strings.TrimSpace(line.String()), "msg=works ")
		rows := []struct{ name, got, want string }{
			{"%v", fmt.Sprintf("%v", lease), fmt.Sprintf(`lease of "order:42" for "pay": held for 1.2s, valid for 28.498s, fence %d`, fence)},
			{"%+v", fmt.Sprintf("%+v", lease), lease.String()},
			{"%#v", fmt.Sprintf("%#v", lease), lease.String()},
			{"slog", logged, fmt.Sprintf(`lease.name=pay lease.key=order:42 lease.state=held lease.held=1.2s lease.valid=28.498s lease.fence=%d`, fence)},
			{"Info", string(inJSON), fmt.Sprintf(`{"key":"order:42","held":true,"mode":"exclusive","holders":[{"instance":%q,"age":"1.2s","left":"28.8s"}],"waiting":0}`, s.locks.Instance())},
		}
		mustRelease(s, lease)
		rows = append(rows, struct{ name, got, want string }{
			"released", lease.String(), fmt.Sprintf(`lease of "order:42" for "pay": released, fence %d`, fence),
		})
		for _, row := range rows {
			if row.got != row.want {
				t.Errorf("%s:\ngot  %s\nwant %s", row.name, row.got, row.want)
			}
			if secret == "" || strings.Contains(row.got, secret) {
				t.Errorf("%s shows the token: %s", row.name, row.got)
			}
		}
	})
}

// A lease that relies on another's lock, or on several, does not say that it is held when
// one of those is not.
func TestTextsOfLeasesThatRelyOnOthers(t *testing.T) {
	inScene(t, func(s scene) {
		ctx := context.Background()
		p := lockmw.Policy{Prefix: "order:", Reentrant: true}
		want := func(when string, lease *lockmw.Lease, says string) {
			t.Helper()
			if got, _, _ := strings.Cut(lease.String(), ", fence"); got != says {
				t.Errorf("%s: %s, want %s", when, got, says)
			}
			if state := lease.LogValue().Group()[2]; !strings.Contains(says, ": "+state.Value.String()) {
				t.Errorf("%s: the log has the state %q, and the text %q", when, state.Value, says)
			}
		}
		ctx, outer, err := s.locks.Acquire(ctx, "1", p)
		if err != nil {
			t.Fatal(err)
		}
		_, inner, err := s.locks.Acquire(ctx, "1", p)
		if err != nil {
			t.Fatal(err)
		}
		_, all, err := s.locks.AcquireAll(context.Background(), []string{"2", "3"}, p)
		if err != nil {
			t.Fatal(err)
		}
		want("joined", inner, `lease of "order:1": held for 0s`)
		want("several", all, `lease of "order:2, order:3": held for 0s`)
		s.client.Del(context.Background(), "lock:{order:1}", "lock:{order:3}")
		<-inner.Context().Done()
		<-all.Context().Done()
		want("the outer lease is lost", inner, `lease of "order:1": lost`)
		want("one of several is lost", all, `lease of "order:2, order:3": lost`)
		for _, lease := range []*lockmw.Lease{inner, outer, all} {
			_ = lease.Release(context.Background())
			if got := lease.String(); strings.Contains(got, "held") {
				t.Errorf("after its release: %s", got)
			}
		}
	})
}

// No verb shows the fields of a lease: the token is one.
func TestNoVerbShowsTheToken(t *testing.T) {
	inScene(t, func(s scene) {
		lease := mustAcquire(s, s.locks, "42", order)
		defer mustRelease(s, lease)
		token, _, _ := strings.Cut(s.client.Get(context.Background(), "lock:{order:42}").Val(), ":")
		for _, verb := range "vsqxXdTpbcoeg" {
			for _, flags := range []string{"", "+", "#", "-80", " "} {
				got := fmt.Sprintf("%"+flags+string(verb), lease)
				if token == "" || strings.Contains(got, token) || strings.Contains(got, fmt.Sprintf("%x", token)) {
					t.Errorf("%%%s%c shows the token: %s", flags, verb, got)
				}
			}
		}
		if got := fmt.Sprint(struct{ Lease *lockmw.Lease }{lease}); strings.Contains(got, token) {
			t.Errorf("a struct with a lease shows the token: %s", got)
		}
	})
}

// A refusal says in words how much was tried, also where nothing was.
func TestARefusalSaysHowMuchWasTried(t *testing.T) {
	refusal := lockmw.AcquireError{Key: "k", Queued: true, Waited: time.Second, Err: lockmw.ErrNotAcquired}
	for attempts, want := range []string{"(after 1s)", "(1 attempt in 1s)", "(2 attempts in 1s)"} {
		refusal.Attempts = attempts
		if got := refusal.Error(); !strings.HasSuffix(got, " "+want) {
			t.Errorf("%d attempts: %q, want %q at its end", attempts, got, want)
		}
	}
}
