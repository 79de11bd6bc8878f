package lockotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/lockmw"
)

// metrics are the instruments of one option, and of those Lockers that have it.
type metrics struct {
	gauges *gauges

	acquire, hold, shadow                                          metric.Float64Histogram
	handOvers, refused, lost, failedOpen, stuck, answers, renewals metric.Int64Counter
	stale, unfenced                                                metric.Int64Counter
	overlaps, wouldRefuse, incomplete                              metric.Int64Counter

	renewed, notRenewed []metric.AddOption

	mu   sync.RWMutex
	sets map[series]set
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var errs []error
	histogram := func(m measure.Metric) metric.Float64Histogram {
		h, err := meter.Float64Histogram(m.Name, metric.WithDescription(m.Help), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(measure.Buckets...))
		errs = append(errs, err)
		return h
	}
	counter := func(m measure.Metric) metric.Int64Counter {
		c, err := meter.Int64Counter(m.Name, metric.WithDescription(m.Help))
		errs = append(errs, err)
		return c
	}
	m := &metrics{
		acquire: histogram(measure.AcquireDuration), hold: histogram(measure.HoldDuration),
		handOvers: counter(measure.HandOvers), refused: counter(measure.Refused), lost: counter(measure.Lost),
		failedOpen: counter(measure.FailedOpen), stuck: counter(measure.Stuck),
		stale: counter(measure.Stale), unfenced: counter(measure.Unfenced),
		shadow: histogram(measure.ShadowDuration), overlaps: counter(measure.ShadowOverlaps),
		wouldRefuse: counter(measure.ShadowRefused), incomplete: counter(measure.ShadowIncomplete),
		answers: counter(measure.Answers), renewals: counter(measure.Renewals),
		renewed: toldOf(measure.OutcomeRenewed), notRenewed: toldOf(measure.OutcomeFailed),
		sets: make(map[series]set),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.renewals.Add(context.Background(), 0, m.renewed...)
	m.renewals.Add(context.Background(), 0, m.notRenewed...)
	return m, nil
}

// A series is one set of labels: a name and a mode, and an outcome or a reason where a
// metric has one.
type series struct{ name, mode, label, value string }

// A set is a series as the instruments want it. It is made once, because it costs more than
// to count.
type set struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

// of returns the set of a series.
func (m *metrics) of(s series) set {
	m.mu.RLock()
	made, ok := m.sets[s]
	m.mu.RUnlock()
	if ok {
		return made
	}
	attributes := []attribute.KeyValue{attribute.String(measure.LabelName, s.name), attribute.String(measure.LabelMode, s.mode)}
	if s.label != "" {
		attributes = append(attributes, attribute.String(s.label, s.value))
	}
	at := metric.WithAttributeSet(attribute.NewSet(attributes...))
	made = set{[]metric.RecordOption{at}, []metric.AddOption{at}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets[s] = made
	return made
}

// begin has the counters of a name and mode be there, and 0, unless they are already. Where
// a counter first shows as 1, a query for how it grew does not see its first event.
func (m *metrics) begin(ctx context.Context, s series) {
	first := series{s.name, s.mode, measure.LabelReason, measure.Reasons[len(measure.Reasons)-2]} // a reason that no forecast has
	if m.has(first) {
		return
	}
	at := m.of(s).add
	for _, counter := range []metric.Int64Counter{m.handOvers, m.lost, m.failedOpen, m.stuck, m.stale, m.unfenced} {
		counter.Add(ctx, 0, at...)
	}
	for _, reason := range measure.Reasons {
		m.refused.Add(ctx, 0, m.of(series{s.name, s.mode, measure.LabelReason, reason}).add...)
	}
}

// beginOfDo is begin for what only Do counts.
func (m *metrics) beginOfDo(ctx context.Context, s series) {
	kept := series{s.name, s.mode, measure.LabelOutcome, measure.OutcomeKept}
	if m.has(kept) {
		return
	}
	m.answers.Add(ctx, 0, m.of(kept).add...)
	m.answers.Add(ctx, 0, m.of(series{s.name, s.mode, measure.LabelOutcome, measure.OutcomeNotKept}).add...)
	for _, reason := range measure.ReasonsOfDo {
		m.refused.Add(ctx, 0, m.of(series{s.name, s.mode, measure.LabelReason, reason}).add...)
	}
}

// beginOfShadow is begin for what only policies in shadow count.
func (m *metrics) beginOfShadow(ctx context.Context, s series) {
	mixed := series{s.name, s.mode, measure.LabelMixed, "true"}
	if m.has(mixed) {
		return
	}
	m.overlaps.Add(ctx, 0, m.of(mixed).add...)
	m.overlaps.Add(ctx, 0, m.of(series{s.name, s.mode, measure.LabelMixed, "false"}).add...)
	m.incomplete.Add(ctx, 0, m.of(s).add...)
	for _, reason := range measure.ReasonsOfShadow {
		m.wouldRefuse.Add(ctx, 0, m.of(series{s.name, s.mode, measure.LabelReason, reason}).add...)
	}
}

// has reports whether of has made the set of a series.
func (m *metrics) has(s series) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.sets[s]
	return ok
}

// observe counts an event.
func (m *metrics) observe(ctx context.Context, e lockmw.Event) {
	switch e.Kind {
	case lockmw.EventRenewed:
		m.renewals.Add(ctx, 1, m.renewed...)
	case lockmw.EventRenewalFailed:
		m.renewals.Add(ctx, 1, m.notRenewed...)
	case lockmw.EventContended, lockmw.EventInShadow: // gauges tell of them
	case lockmw.EventServerWarning, lockmw.EventForceReleased, lockmw.EventResolved, lockmw.EventSettingBegan, lockmw.EventSettingEnded: // they have no name
	default:
		if measure.OfNoPolicy(e) {
			return
		}
		m.count(ctx, e, series{name: m.gauges.names.Label(e.Name), mode: measure.Mode(e)})
	}
}

// count counts an event that has a name. The names are bounded, so the sets are, too.
func (m *metrics) count(ctx context.Context, e lockmw.Event, s series) {
	if measure.OfShadow(e) {
		m.forecast(ctx, e, s)
		return
	}
	m.begin(ctx, s)
	if measure.OfDo(e) {
		m.beginOfDo(ctx, s)
	}
	outcome := func(o string) set { return m.of(series{s.name, s.mode, measure.LabelOutcome, o}) }
	switch e.Kind {
	case lockmw.EventAcquired:
		if !e.Part {
			m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeAcquired).record...)
		}
	case lockmw.EventHandedOver:
		m.handOvers.Add(ctx, 1, m.of(s).add...)
	case lockmw.EventRefused:
		m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeRefused).record...)
		m.refused.Add(ctx, 1, m.of(series{s.name, s.mode, measure.LabelReason, measure.Reason(e)}).add...)
	case lockmw.EventSkipped:
		m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeSkipped).record...)
	case lockmw.EventAnswered:
		m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeAnswered).record...)
	case lockmw.EventAnswerKept:
		m.answers.Add(ctx, 1, outcome(measure.OutcomeKept).add...)
	case lockmw.EventAnswerNotKept:
		m.answers.Add(ctx, 1, outcome(measure.OutcomeNotKept).add...)
	case lockmw.EventFailedOpen:
		if !e.Part {
			m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeFailedOpen).record...)
		}
		m.failedOpen.Add(ctx, 1, m.of(s).add...)
	case lockmw.EventSwitchedOff:
		if !e.Part {
			m.acquire.Record(ctx, e.Waited.Seconds(), outcome(measure.OutcomeOff).record...)
		}
	case lockmw.EventReleased:
		if !e.Part {
			m.hold.Record(ctx, e.Held.Seconds(), m.of(s).record...)
		}
	case lockmw.EventLost:
		if e.Held > 0 && !e.Part { // else EventReleased, or that of another key of the call, has told it
			m.hold.Record(ctx, e.Held.Seconds(), m.of(s).record...)
		}
		m.lost.Add(ctx, 1, m.of(s).add...)
	case lockmw.EventStuck:
		m.stuck.Add(ctx, 1, m.of(s).add...)
	case lockmw.EventStale:
		m.stale.Add(ctx, 1, m.of(s).add...)
	case lockmw.EventUnfenced:
		m.unfenced.Add(ctx, 1, m.of(s).add...)
	default: // a newer lockmw has kinds of which this does not know
	}
}

// forecast counts an event of a policy in shadow.
func (m *metrics) forecast(ctx context.Context, e lockmw.Event, s series) {
	m.beginOfShadow(ctx, s)
	of := func(label, value string) set { return m.of(series{s.name, s.mode, label, value}) }
	switch e.Kind {
	case lockmw.EventShadowAcquired:
		m.shadow.Record(ctx, e.Waited.Seconds(), of(measure.LabelOutcome, measure.OutcomeAcquired).record...)
	case lockmw.EventShadowRefused:
		m.shadow.Record(ctx, e.Waited.Seconds(), of(measure.LabelOutcome, measure.OutcomeRefused).record...)
		m.wouldRefuse.Add(ctx, 1, of(measure.LabelReason, measure.Reason(e)).add...)
	case lockmw.EventShadowOverlap:
		m.overlaps.Add(ctx, 1, of(measure.LabelMixed, measure.Mixed(e)).add...)
	case lockmw.EventShadowIncomplete:
		m.incomplete.Add(ctx, 1, m.of(s).add...)
	default: // there are no others
	}
}

// toldOf are the options of a counter with an outcome alone.
func toldOf(outcome string) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String(measure.LabelOutcome, outcome)))}
}
