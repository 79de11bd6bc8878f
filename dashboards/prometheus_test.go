package dashboards_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// limit is how long something may take that takes moments, on a busy machine.
const limit = 60 * time.Second

func TestMain(m *testing.M) { redistest.Main(m) }

// web keeps no connection, so that none is left at the end.
var web = &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}

// A prometheus is a server that runs.
type prometheus struct {
	url  string
	stop func() // it may be called more than once
}

// startPrometheus runs a server that scrapes the targets of some jobs and evaluates rules,
// until the test ends.
func startPrometheus(t *testing.T, every time.Duration, r rules, jobs map[string][]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	r.write(t, filepath.Join(dir, "rules.yaml"))
	interval := model.Duration(every).String()
	var scrapes []any
	for job, targets := range jobs {
		scrapes = append(scrapes, map[string]any{"job_name": job, "static_configs": []any{map[string]any{"targets": targets}}})
	}
	config, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
		"rule_files":     []string{"rules.yaml"},
		"scrape_configs": scrapes,
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "prometheus.yml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // somebody else may have the port
		if p, ran := runPrometheus(t, dir); ran {
			return p
		}
	}
	t.Fatal("Prometheus ends before it is ready")
	return nil
}

// runPrometheus runs a server with the configuration in dir on a port at random. ran is false if it has ended before it
// was ready.
func runPrometheus(t *testing.T, dir string) (p *prometheus, ran bool) {
	t.Helper()
	addr := fmt.Sprint("127.0.0.1:", 12000+rand.IntN(20000)) // below those that the system gives to whoever asks for any
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; scripts/ensure.sh prometheus installs it", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop := func() {
		_ = cmd.Process.Kill() // what it has written is thrown away
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("prometheus wrote:\n%s", &log)
		}
	})
	p = &prometheus{"http://" + addr, stop}
	await.Within(t, limit, "Prometheus is ready, or has ended", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		resp, err := web.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		ran = resp.StatusCode == http.StatusOK
		return ran
	})
	return p, ran
}

// get asks the server's API, and returns what it has to say of it.
func (p *prometheus) get(t *testing.T, path string, values url.Values, data any) {
	t.Helper()
	resp, err := web.Get(p.url + path + "?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %v %s", path, values, err, body)
	}
}

// A series is what a query returns one or more of.
type series struct {
	Metric map[string]string
	Value  [2]any   // of a query at a time: when, and a number as text
	Values [][2]any // of a query over some time
}

// at returns what a query returns now.
func (p *prometheus) at(t *testing.T, query string) []series {
	t.Helper()
	var data struct{ Result []series }
	p.get(t, "/api/v1/query", url.Values{"query": {query}}, &data)
	return data.Result
}

// over returns what a query returned from a time on.
func (p *prometheus) over(t *testing.T, query string, from time.Time, step time.Duration) []series {
	t.Helper()
	var data struct{ Result []series }
	stamp := func(at time.Time) []string { return []string{fmt.Sprint(float64(at.UnixMilli()) / 1000)} }
	p.get(t, "/api/v1/query_range", url.Values{
		"query": {query}, "start": stamp(from), "end": stamp(time.Now()), "step": {fmt.Sprint(step.Seconds())},
	}, &data)
	return data.Result
}

// numbers returns the values that a query returned from a time on, without those that are
// not a number.
func (p *prometheus) numbers(t *testing.T, query string, from time.Time, step time.Duration) (all []float64) {
	t.Helper()
	for _, s := range p.over(t, query, from, step) {
		for _, v := range s.Values {
			if n, ok := number(v); ok {
				all = append(all, n)
			}
		}
	}
	return all
}

// number returns the value of a series at a time; ok is false if it is not a number.
func number(v [2]any) (f float64, ok bool) {
	text, _ := v[1].(string)
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f)
}

// A fired alert is one that was seen firing.
type fired struct{ job, alert, name string }

// fired returns which alerts have fired so far.
func (p *prometheus) fired(t *testing.T) map[fired]bool {
	t.Helper()
	all := make(map[fired]bool)
	for _, s := range p.at(t, `max_over_time(ALERTS{alertstate="firing"}[1h])`) {
		all[fired{s.Metric["job"], s.Metric["alertname"], s.Metric["name"]}] = true
	}
	return all
}

// An active alert has its texts filled in.
type active struct {
	Labels, Annotations map[string]string
	State               string
}

// active returns the alerts that are pending or firing now.
func (p *prometheus) active(t *testing.T) []active {
	t.Helper()
	var data struct{ Alerts []active }
	p.get(t, "/api/v1/alerts", nil, &data)
	return data.Alerts
}
