package browsertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// watchTasks notes how long the page was busy at a stretch.
const watchTasks = `
	window.longest = 0;
	new PerformanceObserver((list) => {
		for (const e of list.getEntries()) longest = Math.max(longest, e.duration);
	}).observe({ type: "longtask" });
`

// typeAndDraw types into the search, and tells how many milliseconds pass from each key
// until the page is drawn with what it brings.
const typeAndDraw = `(async () => {
	const field = document.querySelector("#search"), times = [];
	for (const text of ["o", "or", "ord", "order:1", "order:12", "order:123", "order:12", "o", ""]) {
		const began = performance.now();
		field.value = text;
		field.dispatchEvent(new Event("input"));
		await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
		times.push(performance.now() - began);
	}
	return times;
})()`

// scrollDown scrolls through the whole list, and tells the longest time between two frames.
const scrollDown = `(async () => {
	const list = document.querySelector("#scroll");
	let longest = 0, last = await new Promise(requestAnimationFrame);
	for (let i = 1; i <= 30; i++) {
		list.scrollTop = i / 30 * list.scrollHeight;
		const now = await new Promise(requestAnimationFrame);
		longest = Math.max(longest, now - last);
		last = now;
	}
	return longest;
})()`

// raised is a limit in milliseconds, and the longest time that the machine has stood still since:
// a frame or a key meets one stall.
func raised(limit float64, stood *stalls.Meter, since time.Time) float64 {
	return limit + float64(stood.Longest(since, time.Now()).Milliseconds())
}

// tried measures up to three times, until measure has nothing to say: the browser's processes may stand still
// where that of the test does not.
func tried(t *testing.T, measure func() (wrong string)) {
	t.Helper()
	var all []string
	for range 3 {
		wrong := measure()
		if wrong == "" {
			return
		}
		all = append(all, wrong)
	}
	t.Errorf("each of three times: %q", all)
}

// Ten thousand locks, which are renewed meanwhile, are as easy to look through as ten.
func TestTenThousandLocks(t *testing.T) {
	const n = 10_000
	s := serve(t)
	var taking sync.WaitGroup
	for part := range 50 {
		taking.Go(func() {
			for i := part; i < n; i += 50 {
				p := lockmw.Policy{TTL: 30 * time.Second}
				unheard := func(err error, _ time.Time) bool { return errors.Is(err, lockmw.ErrUnavailable) }
				if _, err := testenv.AskedAgain(context.Background(), s.locks, fmt.Sprintf("order:%d", i), p, unheard); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	taking.Wait()
	client := s.redis.Client(t)
	for name, value := range map[string]string{"slowlog-log-slower-than": "500", "slowlog-max-len": "1000"} {
		if err := client.ConfigSet(context.Background(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	client.SlowLogReset(context.Background())

	began := time.Now()
	p := open(t, s.url)
	p.until("the first rows", `document.querySelectorAll("#rows tr[role=row]").length > 10`)
	first := time.Since(began)
	p.until("all locks", `document.querySelector("#count-all").textContent === "10,000"`)
	all := time.Since(began)
	t.Logf("first rows after %v, all %d locks after %v, the page's start included", first.Round(time.Millisecond), n, all.Round(time.Millisecond))
	if rows := eval[int](p, `document.querySelectorAll("#rows tr").length`); rows > 100 {
		t.Errorf("the page has %d rows", rows)
	}

	stood := stalls.During(t)
	p.run(chromedp.Evaluate[chromedp.Void](`void (() => {` + watchTasks + `})()`))
	tried(t, func() string {
		looking := time.Now()
		slowest, frame := slices.Max(promised[[]float64](p, typeAndDraw)), promised[float64](p, scrollDown)
		t.Logf("a key that is typed is drawn after %.0f ms at most; %.0f ms between two frames while scrolling", slowest, frame)
		if limit := raised(1000, stood, looking); slowest > limit || frame > limit {
			return fmt.Sprintf("a key takes %.0f ms, a frame %.0f ms, want %.0f ms at most", slowest, frame, limit)
		}
		return ""
	})
	if last := p.keys(); last[len(last)-1] != "order:9999" {
		t.Errorf("the list ends with %q", last[len(last)-1])
	}
	tried(t, func() string {
		looking := time.Now()
		p.run(chromedp.Evaluate[chromedp.Void](`void (window.longest = 0, window.from = asOf)`))
		p.untilWithin(within+4*all, "two more readings", `asOf > window.from + 2000`)
		long := eval[float64](p, `window.longest`)
		t.Logf("the page was busy for %.0f ms at a stretch, at most, in two readings", long)
		if limit := raised(1500, stood, looking); long > limit {
			return fmt.Sprintf("busy for %.0f ms, want %.0f ms at most", long, limit)
		}
		return ""
	})

	t.Logf("all are read again every %d ms", eval[int](p, `status.every`))
	p.slash()
	p.press("order:4242")
	p.until("one is found", `document.querySelectorAll("#rows tr[role=row]").length === 1`)
	p.press(kb.Escape)

	// Redis does nothing else during a command: a list of all is read in small steps. How
	// long a step takes is told only, since it may have waited for a processor.
	stats := client.Info(context.Background(), "latencystats").Val()
	for _, command := range []string{"scan", "evalsha"} {
		_, text, _ := strings.Cut(stats, "latency_percentiles_usec_"+command+":")
		text, _, _ = strings.Cut(text, "\r\n")
		t.Logf("Redis: µs of %s: %s", command, text)
	}
	const step = 1000 // keys, as lockmw's List promises
	var worst time.Duration
	for _, slow := range client.SlowLogGet(context.Background(), 1000).Val() {
		worst = max(worst, slow.Duration)
		if i := slices.Index(slow.Args, "count"); slow.Args[0] == "scan" && slow.Args[i+1] != strconv.Itoa(step) {
			t.Errorf("Redis looked for locks by %q, want %d keys at a time", slow.Args, step)
		}
	}
	t.Logf("Redis's longest command: %v (0: none of more than 500 µs)", worst)
}
