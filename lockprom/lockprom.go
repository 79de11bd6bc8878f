// Package lockprom has metrics of lockmw for Prometheus. One option of lockmw.New adds them:
//
//	locks, err := lockmw.New(client, lockprom.New(prometheus.DefaultRegisterer))
//
// The metrics of all Lockers are lockmw_acquire_duration_seconds, lockmw_hold_duration_seconds,
// lockmw_held, lockmw_waiting, lockmw_handovers_total, lockmw_refused_total, lockmw_lost_total,
// lockmw_failed_open_total, lockmw_stuck_total, lockmw_stale_writes_total,
// lockmw_unfenced_writes_total, lockmw_answers_total, lockmw_renewals_total and lockmw_redis_up.
//
// Policies with Shadow add lockmw_shadow, lockmw_shadow_acquire_duration_seconds,
// lockmw_shadow_refused_total, lockmw_shadow_overlaps_total and lockmw_shadow_incomplete_total. A
// Locker with live settings adds lockmw_off, lockmw_settings, lockmw_settings_refused and
// lockmw_settings_age_seconds.
//
// The label name is the policy's Name (or Prefix). No label has a key in it. A name beyond the
// first 200 counts as "other".
//
// The counters of a name and mode exist from its first call on, with the value 0. Those that only
// Do or Shadow uses exist from the first event of that kind on, and those of renewals from the
// start. A counter that first shows as 1 would hide its first event, because increase() and rate()
// of Prometheus tell only how a counter has grown since it was first seen.
package lockprom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/lockmw"
)

// New returns an Option that registers the metrics with registerer and measures the Locker. Several
// Lockers may be given one registerer, and then count together; lockmw_redis_up is 1 only if all of
// them reach their Redis. If registerer is nil, or has other metrics of these names, lockmw.New
// returns the error.
//
// An Acquire and its Release cost about half a microsecond more. A Locker that is closed no longer
// adds to gauges; its counters stay.
func New(registerer prometheus.Registerer) lockmw.Option {
	if registerer == nil {
		return lockmw.Failed(errors.New("lockprom: the registerer is nil"))
	}
	c := newCollector()
	if err := registerer.Register(c); err != nil {
		known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !ok {
			return lockmw.Failed(fmt.Errorf("lockprom: %w", err))
		}
		if c, ok = known.ExistingCollector.(*collector); !ok {
			return lockmw.Failed(fmt.Errorf("lockprom: %w", err))
		}
	}
	return lockmw.Options(lockmw.WithObserver(c.observe), lockmw.WithStats(c.read))
}

// A collector has all metrics, of all Lockers that share a registerer.
type collector struct {
	names, shaded measure.Names // shaded: those that have been in shadow

	acquire, hold, shadow                                          *prometheus.HistogramVec
	handOvers, refused, lost, failedOpen, stuck, answers, renewals *prometheus.CounterVec
	stale, unfenced                                                *prometheus.CounterVec
	overlaps, wouldRefuse, incomplete                              *prometheus.CounterVec
	held, waiting, up, inShadow                                    *prometheus.Desc
	off, settings, settingsRefused, settingsAge                    *prometheus.Desc

	begunMu sync.RWMutex
	begun   map[series]struct{} // those whose counters are there

	mu      sync.Mutex
	readers map[*func() lockmw.Stats]struct{}
}

// A series is a name and a mode. What only Do counts is one more, and so is what only policies in shadow do.
type series struct {
	name, mode     string
	ofDo, ofShadow bool
}

func newCollector() *collector {
	histogram := func(m measure.Metric) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: measure.Buckets}, m.Labels)
	}
	counter := func(m measure.Metric) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	}
	gauge := func(m measure.Metric) *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }
	c := &collector{
		acquire: histogram(measure.AcquireDuration), hold: histogram(measure.HoldDuration),
		handOvers: counter(measure.HandOvers), refused: counter(measure.Refused), lost: counter(measure.Lost),
		failedOpen: counter(measure.FailedOpen), stuck: counter(measure.Stuck),
		stale: counter(measure.Stale), unfenced: counter(measure.Unfenced),
		shadow: histogram(measure.ShadowDuration), overlaps: counter(measure.ShadowOverlaps),
		wouldRefuse: counter(measure.ShadowRefused), incomplete: counter(measure.ShadowIncomplete), inShadow: gauge(measure.Shadow),
		answers: counter(measure.Answers), renewals: counter(measure.Renewals),
		held: gauge(measure.Held), waiting: gauge(measure.Waiting), up: gauge(measure.RedisUp),
		off: gauge(measure.Off), settings: gauge(measure.Settings), settingsRefused: gauge(measure.SettingsRefused), settingsAge: gauge(measure.SettingsAge),
		begun:   make(map[series]struct{}),
		readers: make(map[*func() lockmw.Stats]struct{}),
	}
	for _, outcome := range []string{measure.OutcomeRenewed, measure.OutcomeFailed} {
		c.renewals.WithLabelValues(outcome)
	}
	return c
}

// begin has the counters of a name and mode be there, and 0, unless they are already. The
// names are bounded, so what is kept of them is, too.
func (c *collector) begin(s series) {
	c.begunMu.RLock()
	_, ok := c.begun[s]
	c.begunMu.RUnlock()
	if ok {
		return
	}
	if s.ofShadow {
		c.beginShadow(s)
		return
	}
	for _, v := range []*prometheus.CounterVec{c.handOvers, c.lost, c.failedOpen, c.stuck, c.stale, c.unfenced} {
		v.WithLabelValues(s.name, s.mode)
	}
	for _, reason := range measure.Reasons {
		c.refused.WithLabelValues(s.name, s.mode, reason)
	}
	if s.ofDo {
		for _, reason := range measure.ReasonsOfDo {
			c.refused.WithLabelValues(s.name, s.mode, reason)
		}
		c.answers.WithLabelValues(s.name, s.mode, measure.OutcomeKept)
		c.answers.WithLabelValues(s.name, s.mode, measure.OutcomeNotKept)
	}
	c.hasBegun(s)
}

// beginShadow is begin for what only policies in shadow count.
func (c *collector) beginShadow(s series) {
	c.incomplete.WithLabelValues(s.name, s.mode)
	for _, mixed := range []string{"false", "true"} {
		c.overlaps.WithLabelValues(s.name, s.mode, mixed)
	}
	for _, reason := range measure.ReasonsOfShadow {
		c.wouldRefuse.WithLabelValues(s.name, s.mode, reason)
	}
	c.hasBegun(s)
}

func (c *collector) hasBegun(s series) {
	c.begunMu.Lock()
	defer c.begunMu.Unlock()
	c.begun[s] = struct{}{}
}

// vectors are the metrics that observe counts.
func (c *collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{c.acquire, c.hold, c.handOvers, c.refused, c.lost, c.failedOpen, c.stuck, c.stale, c.unfenced, c.answers, c.renewals, c.shadow, c.overlaps, c.wouldRefuse, c.incomplete}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.vectors() {
		v.Describe(ch)
	}
	for _, gauge := range []*prometheus.Desc{c.held, c.waiting, c.up, c.inShadow, c.off, c.settings, c.settingsRefused, c.settingsAge} {
		ch <- gauge
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.vectors() {
		v.Collect(ch)
	}
	c.mu.Lock()
	readers := maps.Clone(c.readers)
	c.mu.Unlock()
	sum, up := make(map[string]lockmw.NameStats), 1.0
	var settings measure.SettingsSum
	for read := range readers {
		stats := (*read)()
		settings.Add(stats.Settings, c.names.Label)
		if !stats.Connected {
			up = 0
		}
		for name, n := range stats.Names {
			name = c.names.Label(name)
			all := sum[name]
			all.Held += n.Held
			all.Waiting += n.Waiting
			if n.Shadow {
				c.shaded.Label(name)
				all.Shadow = true
			}
			sum[name] = all
		}
	}
	for name := range c.names.All() { // 0, not absent, where nothing is held just now
		ch <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(sum[name].Held), name)
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(sum[name].Waiting), name)
		if settings.Any() {
			ch <- prometheus.MustNewConstMetric(c.off, prometheus.GaugeValue, float64(settings.OffOf(name)), name)
		}
	}
	for name := range c.shaded.All() {
		on := 0.0
		if sum[name].Shadow {
			on = 1
		}
		ch <- prometheus.MustNewConstMetric(c.inShadow, prometheus.GaugeValue, on, name)
	}
	c.collectSettings(ch, settings)
	if len(readers) > 0 {
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up)
	}
}

// collectSettings collects what live settings tell, but for lockmw_off.
func (c *collector) collectSettings(ch chan<- prometheus.Metric, settings measure.SettingsSum) {
	for field, n := range settings.Changed {
		ch <- prometheus.MustNewConstMetric(c.settings, prometheus.GaugeValue, float64(n), field)
	}
	for source, age := range settings.Ages {
		ch <- prometheus.MustNewConstMetric(c.settingsAge, prometheus.GaugeValue, age, source)
	}
	if settings.Any() {
		ch <- prometheus.MustNewConstMetric(c.settingsRefused, prometheus.GaugeValue, float64(settings.Refused))
	}
}

// read has the gauges tell of a Locker until it is closed.
func (c *collector) read(stats func() lockmw.Stats) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[&stats] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.readers, &stats)
	}
}

// observe counts an event.
func (c *collector) observe(_ context.Context, e lockmw.Event) {
	if measure.OfNoPolicy(e) || e.Kind == lockmw.EventInShadow { // a gauge tells of that
		return
	}
	name, mode := c.names.Label(e.Name), measure.Mode(e)
	c.begin(series{name, mode, measure.OfDo(e), measure.OfShadow(e)})
	switch e.Kind {
	case lockmw.EventAcquired:
		if !e.Part {
			c.acquire.WithLabelValues(name, mode, measure.OutcomeAcquired).Observe(e.Waited.Seconds())
		}
	case lockmw.EventHandedOver:
		c.handOvers.WithLabelValues(name, mode).Inc()
	case lockmw.EventRefused:
		c.acquire.WithLabelValues(name, mode, measure.OutcomeRefused).Observe(e.Waited.Seconds())
		c.refused.WithLabelValues(name, mode, measure.Reason(e)).Inc()
	case lockmw.EventSkipped:
		c.acquire.WithLabelValues(name, mode, measure.OutcomeSkipped).Observe(e.Waited.Seconds())
	case lockmw.EventAnswered:
		c.acquire.WithLabelValues(name, mode, measure.OutcomeAnswered).Observe(e.Waited.Seconds())
	case lockmw.EventAnswerKept:
		c.answers.WithLabelValues(name, mode, measure.OutcomeKept).Inc()
	case lockmw.EventAnswerNotKept:
		c.answers.WithLabelValues(name, mode, measure.OutcomeNotKept).Inc()
	case lockmw.EventFailedOpen:
		if !e.Part {
			c.acquire.WithLabelValues(name, mode, measure.OutcomeFailedOpen).Observe(e.Waited.Seconds())
		}
		c.failedOpen.WithLabelValues(name, mode).Inc()
	case lockmw.EventSwitchedOff:
		if !e.Part {
			c.acquire.WithLabelValues(name, mode, measure.OutcomeOff).Observe(e.Waited.Seconds())
		}
	case lockmw.EventReleased:
		if !e.Part {
			c.hold.WithLabelValues(name, mode).Observe(e.Held.Seconds())
		}
	case lockmw.EventLost:
		if e.Held > 0 && !e.Part { // else EventReleased, or that of another key of the call, has told it
			c.hold.WithLabelValues(name, mode).Observe(e.Held.Seconds())
		}
		c.lost.WithLabelValues(name, mode).Inc()
	case lockmw.EventStuck:
		c.stuck.WithLabelValues(name, mode).Inc()
	case lockmw.EventStale:
		c.stale.WithLabelValues(name, mode).Inc()
	case lockmw.EventUnfenced:
		c.unfenced.WithLabelValues(name, mode).Inc()
	case lockmw.EventRenewed:
		c.renewals.WithLabelValues(measure.OutcomeRenewed).Inc()
	case lockmw.EventRenewalFailed:
		c.renewals.WithLabelValues(measure.OutcomeFailed).Inc()
	case lockmw.EventShadowAcquired:
		c.shadow.WithLabelValues(name, mode, measure.OutcomeAcquired).Observe(e.Waited.Seconds())
	case lockmw.EventShadowRefused:
		c.shadow.WithLabelValues(name, mode, measure.OutcomeRefused).Observe(e.Waited.Seconds())
		c.wouldRefuse.WithLabelValues(name, mode, measure.Reason(e)).Inc()
	case lockmw.EventShadowOverlap:
		c.overlaps.WithLabelValues(name, mode, measure.Mixed(e)).Inc()
	case lockmw.EventShadowIncomplete:
		c.incomplete.WithLabelValues(name, mode).Inc()
	case lockmw.EventContended, lockmw.EventInShadow, lockmw.EventServerWarning, lockmw.EventForceReleased, lockmw.EventResolved,
		lockmw.EventSettingBegan, lockmw.EventSettingEnded:
	}
}
