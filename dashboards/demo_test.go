package dashboards_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A demo is the program of `make demo ARGS=-serve`.
type demo struct {
	cmd   *exec.Cmd
	shops []string // host:port
	began time.Time

	mu   sync.Mutex
	said bytes.Buffer
}

// Write keeps what the demo prints.
func (d *demo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(p)
}

func (d *demo) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// startDemo runs the demo with a Redis, until the test ends or stops it.
func startDemo(t *testing.T, redis string) *demo {
	t.Helper()
	program := filepath.Join(t.TempDir(), "orders")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "examples", "orders")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := &demo{cmd: exec.Command(program, "-serve", "-addr", "127.0.0.1:0"), began: time.Now()}
	d.cmd.Env = append(os.Environ(), "REDIS_ADDR="+redis)
	d.cmd.Stdout, d.cmd.Stderr = d, d
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the demo said:\n%s", d.text())
		}
	})
	await.Within(t, limit, "the demo says where everything is", func() bool { return strings.Contains(d.text(), "Ctrl-C ends it") })
	line := regexp.MustCompile(`(?m)^  shops .*$`).FindString(d.text())
	for _, url := range regexp.MustCompile(`http://(\S+)`).FindAllStringSubmatch(line, -1) {
		d.shops = append(d.shops, url[1])
	}
	if len(d.shops) != 4 {
		t.Fatalf("not the addresses of four shops: %q", d.shops)
	}
	return d
}

// stop ends the demo as Ctrl-C does.
func (d *demo) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the demo ends with %v", err)
	}
	used, lasted := d.cmd.ProcessState.UserTime()+d.cmd.ProcessState.SystemTime(), time.Since(d.began)
	t.Logf("the demo's five processes used %v of processor time in %v, %.1f %% of a core",
		used.Round(time.Millisecond), lasted.Round(time.Second), 100*used.Seconds()/lasted.Seconds())
}

func TestDemoShowsOnEveryPanel(t *testing.T) {
	t.Parallel()
	every, faster, lasts := 500*time.Millisecond, time.Duration(100), 16*time.Second
	if !testing.Short() {
		every, faster, lasts = time.Second, 60, time.Minute
	}
	redis := redistest.Real(t)
	started, stood := time.Now(), watchStalls(t, redis)
	d := startDemo(t, redis.Addr())
	rules := readRules(t).faster(t, faster)
	began := time.Now()
	p := startPrometheus(t, every, rules, map[string][]string{"orders": d.shops})
	sleep(t.Context(), lasts)

	shown := view{every, time.Since(began).Round(time.Second), faster}
	ofBoard, ofAlerts := queries(t, readBoard(t), rules, shown)
	for _, all := range []struct {
		of      string
		queries []query
	}{{"the board", ofBoard}, {"the alerts", ofAlerts}} {
		with := 0
		for _, q := range all.queries {
			numbers := p.numbers(t, q.expr, began, every)
			if len(numbers) > 0 {
				with++
			} else {
				t.Errorf("%s returns nothing: %s", q.of, q.expr)
			}
			if q.share && len(numbers) > 0 && slices.Max(numbers) > 1+1e-9 { // what is added in another order may differ by a little
				t.Errorf("%s returns %v, which is more than all: %s", q.of, slices.Max(numbers), q.expr)
			}
		}
		t.Logf("%d of %d queries of %s returned data after %v", with, len(all.queries), all.of, lasts)
	}
	for _, shop := range d.shops {
		checkMetrics(t, page(t, shop))
	}
	for _, v := range readBoard(t).Templating.List {
		if v.Type == "query" {
			p.hasValues(t, v)
		}
	}

	calm := p.fired(t)
	for f := range calm {
		if !troubles[f.alert] && !ofStalls(f, stood, started) {
			t.Errorf("fired although Redis was there: %+v", f)
		}
	}
	for alert := range troubles {
		awaitAlert(t, p, alert)
	}
	redis.Kill()
	awaitAlert(t, p, "LockmwRedisDown")
	awaitAlert(t, p, "LockmwFailedOpen")
	await.Within(t, limit, "the demo says that Redis is away", func() bool { return strings.Contains(d.text(), "Redis does not answer") })
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	await.Within(t, limit, "Redis is up again for all", func() bool { return len(p.at(t, "lockmw_redis_up == 1")) == len(d.shops) })
	await.Within(t, limit, "the demo says that Redis is back", func() bool { return strings.Contains(d.text(), "Redis answers again") })
	t.Logf("fired: %v", sorted(p.fired(t)))
	if *picture != "" {
		sleep(t.Context(), 10*every) // so that it shows the end of the outage, too
		svg := draw(readBoard(t), time.Since(began).Seconds(), func(of panel) []line { return p.lines(t, of, began, shown) })
		if err := os.WriteFile(*picture, svg, 0o600); err != nil {
			t.Error(err)
		}
	}
	d.stop(t)
}

// troubles are the alerts that the demo gives reason for by itself.
var troubles = map[string]bool{"LockmwLocksLost": true, "LockmwHoldersStuck": true, "LockmwRefusalsHigh": true, "LockmwWaitsTimeOut": true, "LockmwInShadow": true}

func awaitAlert(t *testing.T, p *prometheus, alert string) {
	t.Helper()
	await.Within(t, limit, alert+" fires", func() bool {
		for f := range p.fired(t) {
			if f.alert == alert {
				return true
			}
		}
		return false
	})
}

// hasValues fails the test if a variable of the board has none to choose from.
func (p *prometheus) hasValues(t *testing.T, v variable) {
	t.Helper()
	found := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition)
	if found == nil {
		t.Errorf("variable %s: %s", v.Name, v.Definition)
		return
	}
	values := make(map[string]bool)
	for _, s := range p.at(t, fill(found[1], time.Second, time.Second)) {
		values[s.Metric[found[2]]] = true
	}
	want := map[string]int{"job": 1, "instance": 4, "name": 9}[v.Name]
	if len(values) != want || values[""] {
		t.Errorf("variable %s has the values %v, want %d", v.Name, values, want)
	}
}

// page returns the metrics of a shop.
func page(t *testing.T, shop string) string {
	t.Helper()
	resp, err := web.Get("http://" + shop + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
