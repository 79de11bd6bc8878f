package dashboards_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockprom"
)

// A service is a process with locks, as Prometheus sees it: a job of its own.
type service struct {
	t     *testing.T
	redis *redistest.Server
	locks *lockmw.Locker
	page  *httptest.Server

	settings string // the file of its live settings
}

func newService(t *testing.T, redis *redistest.Server, job string) *service {
	t.Helper()
	registry := prom.NewRegistry()
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	locks, err := lockmw.New(redis.Client(t), lockmw.WithNamespace(job), lockprom.New(registry),
		lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff(), lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	// The rules' times are divided, and so are the pauses between two scrapes. On a machine that stands still for longer a
	// scrape that has been given up would go on beside the next ones, and all would be too slow.
	page := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, DisableCompression: true}))
	t.Cleanup(func() {
		page.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Close(ctx) // where Redis was taken away, something stays there
	})
	return &service{t, redis, locks, page, file}
}

// often does something again and again until ctx ends.
func often(ctx context.Context, pause time.Duration, do func()) {
	for ctx.Err() == nil {
		do()
		sleep(ctx, pause)
	}
}

// again is after how long a cause comes again that is a single event: the rules look at 6 s and more (10 minutes, divided), in which a machine
// that stands still may scrape nothing. That the first event is enough is tried in alerts_test.yaml.
const again = 3 * time.Second

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold has a lock for a while, if it gets it.
func (s *service) hold(ctx context.Context, key string, p lockmw.Policy, d time.Duration) {
	_, lease, err := s.locks.Acquire(ctx, key, p)
	if err != nil {
		return
	}
	sleep(ctx, d)
	_ = lease.Release(ctx) // it may be lost, which is what some services are for
}

// work is an ordinary load: short locks, and one that is held for long enough to be renewed. On a machine that is busy with other
// tests even a Redis that is well may let a lock of some seconds be lost; so only those that are to lose it have such a one.
func (s *service) work(ctx context.Context, ttl time.Duration) {
	var all sync.WaitGroup
	all.Go(func() {
		often(ctx, 30*time.Millisecond, func() { s.hold(ctx, "short", lockmw.Policy{Name: "short"}, 5*time.Millisecond) })
	})
	all.Go(func() {
		often(ctx, 10*time.Millisecond, func() { s.hold(ctx, "long", lockmw.Policy{Name: "long", TTL: ttl}, 40*time.Second) })
	})
	all.Wait()
}

// A scene is a service to which something happens, and the alerts for that: the name of the
// lock that each is about, by its own, and "" for one that is about no name.
type scene struct {
	want  map[string]string
	cause func(ctx context.Context, s *service)
}

var scenes = map[string]scene{
	"calm": {nil, func(context.Context, *service) {}},

	"redis stops": {
		map[string]string{"LockmwRedisDown": "", "LockmwFailedOpen": "open", "LockmwLocksLost": "long"},
		func(ctx context.Context, s *service) {
			s.redis.Kill()
			often(ctx, 50*time.Millisecond, func() {
				s.hold(ctx, "open", lockmw.Policy{Name: "open", FailOpen: true}, 10*time.Millisecond)
				s.hold(ctx, "shut", lockmw.Policy{Name: "shut"}, 0)
			})
		},
	},

	// A Redis that takes the right to run scripts away answers all the same.
	"redis refuses": {
		map[string]string{"LockmwRedisRefuses": "short", "LockmwRenewalsFail": "", "LockmwLocksLost": "long"},
		func(ctx context.Context, s *service) {
			if err := s.redis.Client(s.t).Do(ctx, "ACL", "SETUSER", "default", "-@scripting").Err(); err != nil {
				s.t.Error(err)
			}
		},
	},

	"a lock is lost": {
		map[string]string{"LockmwLocksLost": "once"},
		func(ctx context.Context, s *service) {
			for !s.lose(ctx, "once") && ctx.Err() == nil {
				sleep(ctx, 100*time.Millisecond)
			}
		},
	},

	"locks are lost again and again": {
		map[string]string{"LockmwLocksLost": "again", "LockmwLossesPersist": "again"},
		func(ctx context.Context, s *service) {
			often(ctx, 100*time.Millisecond, func() { s.lose(ctx, "again") })
		},
	},

	"a holder hangs": {
		map[string]string{"LockmwHoldersStuck": "hung"},
		func(ctx context.Context, s *service) {
			s.hold(ctx, "hung", lockmw.Policy{Name: "hung", MaxHold: 500 * time.Millisecond}, time.Hour)
		},
	},

	"a database refuses a late writer": {
		map[string]string{"LockmwStaleWrites": "late"},
		func(ctx context.Context, s *service) {
			_ = s.locks.WithLock(ctx, "late", lockmw.Policy{Name: "late"}, func(ctx context.Context) error {
				lease, _ := lockmw.FromContext(ctx)
				seam.Guarded(lease, lease.Key(), fence.ErrStale)
				return nil
			})
		},
	},

	"many find the lock held": {
		map[string]string{"LockmwRefusalsHigh": "busy"},
		func(ctx context.Context, s *service) {
			often(ctx, 0, func() {
				s.hold(ctx, "busy", lockmw.Policy{Name: "busy"}, 0)
				_, lease, err := s.locks.Acquire(ctx, "busy", lockmw.Policy{Name: "busy"})
				if err != nil {
					return
				}
				for range 3 {
					s.hold(ctx, "busy", lockmw.Policy{Name: "busy"}, 0)
					sleep(ctx, 20*time.Millisecond)
				}
				_ = lease.Release(ctx)
			})
		},
	},

	"many wait in vain": {
		map[string]string{"LockmwWaitsTimeOut": "vain"},
		func(ctx context.Context, s *service) {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					often(ctx, 0, func() {
						s.hold(ctx, "vain", lockmw.Policy{Name: "vain", Wait: 100 * time.Millisecond}, 150*time.Millisecond)
					})
				})
			}
			all.Wait()
		},
	},

	"waits are long": {
		map[string]string{"LockmwWaitsLong": "slow"},
		func(ctx context.Context, s *service) {
			var all sync.WaitGroup
			for range 12 { // of whom eleven wait while one holds
				all.Go(func() {
					often(ctx, 0, func() { s.hold(ctx, "slow", lockmw.Policy{Name: "slow", Wait: time.Minute}, 700*time.Millisecond) })
				})
			}
			all.Wait()
		},
	},

	"nobody knows whether work was done": {
		map[string]string{"LockmwUncertain": "unsure"},
		func(ctx context.Context, s *service) {
			often(ctx, again, func() { // the second call is told
				_ = s.do(ctx, lockmw.Flight{Policy: lockmw.Policy{Name: "unsure"}, Retain: time.Hour, Crash: lockmw.Uncertain}, lockmw.ErrUncertain)
			})
		},
	},

	"an answer is too large": {
		map[string]string{"LockmwAnswersNotKept": "large"},
		func(ctx context.Context, s *service) {
			often(ctx, again, func() { _ = s.do(ctx, lockmw.Flight{Policy: lockmw.Policy{Name: "large"}, MaxAnswer: 1}, nil) })
		},
	},

	"a lock is only tried": {
		map[string]string{"LockmwInShadow": "tried"},
		func(ctx context.Context, s *service) {
			often(ctx, 100*time.Millisecond, func() { s.hold(ctx, "tried", lockmw.Policy{Name: "tried", Shadow: true}, 0) })
		},
	},

	"an operator only has a lock tried": {
		map[string]string{"LockmwInShadow": "trial"},
		func(ctx context.Context, s *service) {
			s.set(`{"*/trial": {"shadow": true}}`)
			often(ctx, 100*time.Millisecond, func() { s.hold(ctx, "trial", lockmw.Policy{Name: "trial"}, 0) })
		},
	},

	"an operator switches locks off": {
		map[string]string{"LockmwOff": "off"},
		func(ctx context.Context, s *service) {
			s.set(`{"*/off": {"off": true}}`)
			often(ctx, 100*time.Millisecond, func() { s.hold(ctx, "off", lockmw.Policy{Name: "off"}, 10*time.Millisecond) })
		},
	},

	"settings cannot be read": {
		map[string]string{"LockmwSettingsNotRead": ""},
		func(_ context.Context, s *service) { s.set(`{"*/off": {"off"`) },
	},

	"the program asks for a lock under itself": {
		map[string]string{"LockmwMisuse": "twice"},
		func(ctx context.Context, s *service) {
			often(ctx, again, func() {
				_ = s.locks.WithLock(ctx, "twice", lockmw.Policy{Name: "twice"}, func(ctx context.Context) error {
					s.hold(ctx, "twice", lockmw.Policy{Name: "twice"}, 0)
					return nil
				})
			})
		},
	},
}

// set has the service's file of live settings have that text.
func (s *service) set(text string) {
	if err := os.WriteFile(s.settings, []byte(text), 0o600); err != nil {
		s.t.Error(err)
	}
}

// do has work done that ends with an answer and err, and returns the error of Do.
func (s *service) do(ctx context.Context, f lockmw.Flight, err error) error {
	_, _, got := lockmw.Do(ctx, s.locks, f.Policy.Name, f, func(context.Context) (string, error) { return "an answer", err })
	return got
}

// lose takes a lock and has it taken away by force, unless Redis stands still meanwhile: then it says
// whether the lock is lost.
func (s *service) lose(ctx context.Context, name string) (lost bool) {
	held, lease, err := s.locks.Acquire(ctx, name, lockmw.Policy{Name: name, Wait: time.Second})
	if err != nil {
		return false
	}
	err = s.locks.ForceRelease(ctx, name)
	if errors.Is(err, lockmw.ErrUnavailable) {
		return errors.Is(lease.Release(ctx), lockmw.ErrLost)
	}
	if err != nil && ctx.Err() == nil {
		s.t.Error(err)
	}
	select {
	case <-held.Done():
	case <-time.After(limit):
		s.t.Error("a lock that was released by force is not lost")
	}
	_ = lease.Release(ctx) // lost
	return true
}

// A tempo is how fast the time of the rules goes, and how long all alerts may take until they have fired.
type tempo struct {
	faster time.Duration // by how much the times of the rules are divided
	every  time.Duration // between two scrapes
	limit  time.Duration
}

// tempi are tried one after the other, until the machine has time for so many scrapes: the first makes some fifty a second.
func tempi() []tempo {
	if testing.Short() {
		return []tempo{{100, 300 * time.Millisecond, limit}, {20, 1500 * time.Millisecond, 8 * limit}}
	}
	return []tempo{{30, 300 * time.Millisecond, 4 * limit}}
}

// Each scene is quiet until its cause comes. Then its alerts fire, and no others.
func TestAlertsFireForTheirCauseAlone(t *testing.T) {
	t.Parallel()
	shared := redistest.Real(t)
	services, pages := make(map[string]*service), make(map[string][]string)
	for job := range scenes {
		redis := shared
		if strings.HasPrefix(job, "redis ") {
			redis = redistest.Real(t)
		}
		services[job] = newService(t, redis, job)
		pages[job] = []string{strings.TrimPrefix(services[job].page.URL, "http://")}
	}
	started, stood := time.Now(), watchStalls(t, shared, services["redis stops"].redis, services["redis refuses"].redis)

	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for job, s := range services {
		ttl := 45 * time.Second
		if scenes[job].want["LockmwLocksLost"] == "long" {
			ttl = 5 * time.Second
		}
		working.Go(func() { s.work(ctx, ttl) })
	}

	all := tempi()
	p := startPrometheus(t, all[0].every, readRules(t).faster(t, all[0].faster), pages)
	slowDown := func() {
		t.Logf("this machine is too busy to scrape %d services every %v", len(scenes), all[0].every)
		p.stop()
		all = all[1:]
		p = startPrometheus(t, all[0].every, readRules(t).faster(t, all[0].faster), pages)
	}
	for p.isTooFast(t, all) {
		slowDown()
	}
	for f := range p.fired(t) {
		if !ofStalls(f, stood, started) {
			t.Errorf("fired while all was well: %+v", f)
		}
	}

	want := make(map[fired]bool)
	for job, s := range scenes {
		working.Go(func() { s.cause(ctx, services[job]) })
		for alert, name := range s.want {
			want[fired{job, alert, name}] = true
		}
	}
	began, texts := time.Now(), make(map[string]active)
	got := p.watch(t, all[0], want, texts)
	for !containsAll(got, want) && len(all) > 1 {
		slowDown() // the causes go on, and what was counted so far is new to the next Prometheus
		got = p.watch(t, all[0], want, texts)
	}
	for _, f := range sorted(want) {
		if !got[f] {
			t.Errorf("did not fire: %+v; in the last two minutes it was pending in %v, and scrapes came to %v", f,
				p.at(t, fmt.Sprintf(`count_over_time(ALERTS{job=%q,alertname=%q}[2m])`, f.job, f.alert)),
				p.at(t, fmt.Sprintf(`{__name__=~"up|scrape_duration_seconds",job=%q}`, f.job)))
		}
	}
	for _, f := range sorted(got) {
		if !want[f] && !expectedToo(f) && !ofStalls(f, stood, started) {
			t.Errorf("fired without a cause: %+v", f)
		}
	}
	t.Logf("%d alerts fired in %d services %v after their causes; times of the rules divided by %d; the longest stall took %v",
		len(got), len(scenes), time.Since(began).Round(time.Second), all[0].faster, stood.Longest(started, time.Now()).Round(time.Millisecond))

	rules := readRules(t).all()
	for _, r := range rules {
		a, ok := texts[r.Alert]
		text := fmt.Sprint(a.Annotations)
		if !ok || len(a.Annotations) != 3 || strings.Contains(text, "no value") || strings.Contains(text, "{{") || strings.Contains(text, "error") || strings.Contains(text, "%!") {
			t.Errorf("%s was seen: %t, and says %s", r.Alert, ok, text)
		}
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(fmt.Sprint(r.Annotations), -1) {
			if a.Labels[label[1]] == "" { // there would be a gap in the text
				t.Errorf("%s speaks of the label %s, and has none", r.Alert, label[1])
			}
		}
	}
}

// watch looks until what is wanted has fired, or the tempo's limit is over, and returns what has fired. It puts the alerts that it sees into texts, by
// their names.
func (p *prometheus) watch(t *testing.T, at tempo, want map[fired]bool, texts map[string]active) (got map[fired]bool) {
	for end := time.Now().Add(at.limit); time.Now().Before(end) && !containsAll(got, want); sleep(t.Context(), at.every) {
		for _, a := range p.active(t) {
			texts[a.Labels["alertname"]] = a
		}
		got = p.fired(t)
	}
	return got
}

// isTooFast looks for some seconds whether this machine is too busy for the first of some tempi: whether, of a service, one scrape of five fails, or one of four
// takes half of the time that it may take. The last tempo is never too fast, and all services must be scraped with it.
func (p *prometheus) isTooFast(t *testing.T, all []tempo) bool {
	scraped := func() bool { return len(p.at(t, "lockmw_redis_up")) == len(scenes) }
	at, looks := all[0], 500*time.Second/all[0].faster
	if len(all) == 1 {
		await.Within(t, limit, "all are scraped", scraped)
		sleep(t.Context(), looks)
		return false
	}
	for end := time.Now().Add(looks + 10*time.Second); !scraped(); sleep(t.Context(), at.every) { // Prometheus begins some five seconds after its start
		if time.Now().After(end) {
			return true
		}
	}
	sleep(t.Context(), looks)
	late := fmt.Sprintf(`quantile_over_time(0.75, scrape_duration_seconds[%[1]ds]) >= %[2]v or avg_over_time(up[%[1]ds]) < 0.8`, looks/time.Second, at.every.Seconds()/2)
	return len(p.at(t, late)) > 0
}

// expectedToo: a Redis that refuses does so for all names.
func expectedToo(f fired) bool {
	return f.job == "redis refuses" && f.alert == "LockmwRedisRefuses"
}

// watchStalls measures until the test ends how long this process and some Redis servers stood
// still. An answer counts when it comes: a server that was stopped on purpose gives none.
func watchStalls(t *testing.T, servers ...*redistest.Server) *stalls.Meter {
	t.Helper()
	stood := stalls.During(t)
	for _, s := range servers {
		t.Cleanup(redistest.Pulse(stood, 50*time.Millisecond, redistest.Answers, s.Client(t)))
	}
	return stood
}

// ofStalls: where the times of the rules are divided, a Redis or a service that stands still for
// a moment, as happens on a machine that is busy with other tests, is one that is away for a
// minute. Then the alerts for that have a cause.
func ofStalls(f fired, stood *stalls.Meter, from time.Time) bool {
	switch f.alert {
	case "LockmwRedisDown", "LockmwRedisRefuses", "LockmwRenewalsFail", "LockmwFailedOpen", "LockmwLocksLost":
		return testing.Short() && stood.Longest(from, time.Now()) >= 500*time.Millisecond
	default:
		return false
	}
}

func containsAll(all, some map[fired]bool) bool {
	for f := range some {
		if !all[f] {
			return false
		}
	}
	return true
}

func sorted(all map[fired]bool) []fired {
	return slices.SortedFunc(maps.Keys(all), func(a, b fired) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// The pages of the services have the metrics that boards are made of, and no others.
func TestMetricsHaveTheirNamesTypesAndLabels(t *testing.T) {
	s := newService(t, redistest.Real(t), "shop")
	s.hold(t.Context(), "k", lockmw.Policy{Name: "pay"}, 0)
	if err := s.do(t.Context(), lockmw.Flight{Policy: lockmw.Policy{Name: "report"}}, nil); err != nil {
		t.Fatal(err)
	}
	inShadow := lockmw.Policy{Name: "tried", Shadow: true}
	s.hold(t.Context(), "k", inShadow, 0)
	await.Within(t, 20*time.Second, "the forecast is made", func() bool { return strings.Contains(s.text(), "lockmw_shadow_acquire_duration_seconds") })
	checkMetrics(t, s.text())
}

// text is the service's page of metrics.
func (s *service) text() string {
	recorder := httptest.NewRecorder()
	s.page.Config.Handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	return recorder.Body.String()
}
