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
