package lockotel

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/lockmw"
)

// gauges are those of one MeterProvider, for all Lockers that are measured by it: what
// several callbacks say of one gauge is not added up by OpenTelemetry, but the last counts.
type gauges struct {
	names                     measure.Names // that have been held or waited for
	shaded                    measure.Names // that have been in shadow
	held, waiting, up, shadow metric.Int64ObservableGauge

	off, settings, settingsRefused metric.Int64ObservableGauge
	settingsAge                    metric.Float64ObservableGauge

	mu           sync.Mutex
	readers      map[*func() lockmw.Stats]struct{}
	registration metric.Registration // while there are readers
}

// shared are the gauges by MeterProvider. There are few of these, and most programs have one.
var shared struct {
	sync.Mutex
	gauges map[metric.MeterProvider]*gauges
}

// gaugesOf returns the gauges of a MeterProvider.
func gaugesOf(p metric.MeterProvider) (*gauges, error) {
	if !reflect.TypeOf(p).Comparable() {
		return newGauges(p) // of a kind that nobody has seen: it counts alone
	}
	shared.Lock()
	defer shared.Unlock()
	if g, ok := shared.gauges[p]; ok {
		return g, nil
	}
	g, err := newGauges(p)
	if err != nil {
		return nil, err
	}
	if shared.gauges == nil {
		shared.gauges = make(map[metric.MeterProvider]*gauges)
	}
	shared.gauges[p] = g
	return g, nil
}

func newGauges(p metric.MeterProvider) (*gauges, error) {
	var errs []error
	meter := p.Meter(scope)
	gauge := func(m measure.Metric) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(m.Name, metric.WithDescription(m.Help))
		errs = append(errs, err)
		return g
	}
	g := &gauges{
		held: gauge(measure.Held), waiting: gauge(measure.Waiting), up: gauge(measure.RedisUp), shadow: gauge(measure.Shadow),
		off: gauge(measure.Off), settings: gauge(measure.Settings), settingsRefused: gauge(measure.SettingsRefused),
		readers: make(map[*func() lockmw.Stats]struct{}),
	}
	var err error
	g.settingsAge, err = meter.Float64ObservableGauge(measure.SettingsAge.Name, metric.WithDescription(measure.SettingsAge.Help), metric.WithUnit("s"))
	errs = append(errs, err)
	return g, errors.Join(errs...)
}

// readBy returns what has the gauges of p tell of a Locker until it is closed.
func (g *gauges) readBy(p metric.MeterProvider) func(stats func() lockmw.Stats) (stop func()) {
	return func(stats func() lockmw.Stats) (stop func()) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.readers[&stats] = struct{}{}
		if g.registration == nil {
			registration, err := p.Meter(scope).RegisterCallback(g.observe, g.held, g.waiting, g.up, g.shadow, g.off, g.settings, g.settingsRefused, g.settingsAge)
			if err != nil { // the instruments are this meter's, so there is no reason for one
				return nil
			}
			g.registration = registration
		}
		return func() {
			g.mu.Lock()
			delete(g.readers, &stats)
			var last metric.Registration
			if len(g.readers) == 0 {
				last, g.registration = g.registration, nil
			}
			g.mu.Unlock()
			if last != nil {
				_ = last.Unregister() // it does not fail
			}
		}
	}
}

// observe tells what all Lockers have.
func (g *gauges) observe(_ context.Context, o metric.Observer) error {
	g.mu.Lock()
	readers := maps.Clone(g.readers)
	g.mu.Unlock()
	sum, up := make(map[string]lockmw.NameStats), int64(1)
	var settings measure.SettingsSum
	for read := range readers {
		stats := (*read)()
		settings.Add(stats.Settings, g.names.Label)
		if !stats.Connected {
			up = 0
		}
		for name, n := range stats.Names {
			name = g.names.Label(name)
			all := sum[name]
			if n.Shadow {
				g.shaded.Label(name)
			}
			sum[name] = lockmw.NameStats{Held: all.Held + n.Held, Waiting: all.Waiting + n.Waiting, Shadow: all.Shadow || n.Shadow}
		}
	}
	for name := range g.names.All() { // 0, not absent, where nothing is held just now
		at := metric.WithAttributes(attribute.String(measure.LabelName, name))
		o.ObserveInt64(g.held, int64(sum[name].Held), at)
		o.ObserveInt64(g.waiting, int64(sum[name].Waiting), at)
		if settings.Any() {
			o.ObserveInt64(g.off, settings.OffOf(name), at)
		}
	}
	for name := range g.shaded.All() {
		on := int64(0)
		if sum[name].Shadow {
			on = 1
		}
		o.ObserveInt64(g.shadow, on, metric.WithAttributes(attribute.String(measure.LabelName, name)))
	}
	g.observeSettings(o, settings)
	if len(readers) > 0 {
		o.ObserveInt64(g.up, up)
	}
	return nil
}

// observeSettings tells what live settings are, but for lockmw_off.
func (g *gauges) observeSettings(o metric.Observer, settings measure.SettingsSum) {
	for field, n := range settings.Changed {
		o.ObserveInt64(g.settings, int64(n), metric.WithAttributes(attribute.String(measure.LabelField, field)))
	}
	for source, age := range settings.Ages {
		o.ObserveFloat64(g.settingsAge, age, metric.WithAttributes(attribute.String(measure.LabelSource, source)))
	}
	if settings.Any() {
		o.ObserveInt64(g.settingsRefused, int64(settings.Refused))
	}
}
