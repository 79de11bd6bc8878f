// Package lockotel has metrics and traces of lockmw for OpenTelemetry. One option of lockmw.New
// adds them:
//
//	locks, err := lockmw.New(client, lockotel.New())
//
// The metrics have the names, meanings and labels of those of package lockprom.
//
// A span lockmw.acquire covers each Acquire, from the call until it has its lock or is refused. It
// is a child of the caller's span. If the caller has no span that is recorded or sampled, none is
// made. Its attributes are lockmw.name, lockmw.mode, lockmw.outcome and, if the call waited for its
// turn, lockmw.queued. The span of a refused call has the status Error, and the code of the refusal
// as error.type. Work that runs without its lock is no error.
//
// If a call has waited or was refused, it may be known who had the lock. The span then has
// lockmw.holder.instance and lockmw.holder.note, and with Note a link to the holder's span.
//
// The caller's span has an event if a lock was handed over, if a lock was lost, and if an answer
// was not kept.
//
// Spans are made in this file, and note.go adds what they tell of a lock's holder. metrics.go has
// the histograms and counters, and gauges.go the gauges, which several Lockers share.
package lockotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/lockmw"
)

// scope is what meters and tracers are called by.
const scope = "github.com/lockmw/kit/lockotel"

// An Option changes what New makes.
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	withKey bool
}

// WithMeterProvider makes metrics go to p. The default is the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider makes spans go to p. The default is the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithKeyAttribute adds the lock's key to spans and events, as lockmw.key. Keys are often
// private: order numbers, customers. Metrics never have the key.
func WithKeyAttribute() Option { return func(o *options) { o.withKey = true } }

// New returns an Option that measures and traces a Locker. Several Lockers that are
// measured by one MeterProvider count together; lockmw_redis_up is 1 only if all of them
// reach their Redis. If an option or a provider is nil, or OpenTelemetry does not take a
// metric, lockmw.New returns the error.
func New(opts ...Option) lockmw.Option {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for i, opt := range opts {
		if opt == nil {
			return lockmw.Failed(fmt.Errorf("lockotel: option %d is nil", i+1))
		}
		opt(&o)
	}
	if o.meters == nil || o.tracers == nil {
		return lockmw.Failed(errors.New("lockotel: a provider is nil"))
	}
	m, err := newMetrics(o.meters.Meter(scope))
	if err != nil {
		return lockmw.Failed(fmt.Errorf("lockotel: %w", err))
	}
	g, err := gaugesOf(o.meters)
	if err != nil {
		return lockmw.Failed(fmt.Errorf("lockotel: %w", err))
	}
	m.gauges = g
	s := spans{o.tracers.Tracer(scope), o.withKey}
	return lockmw.Options(lockmw.WithObserver(m.observe), lockmw.WithObserver(s.observe), lockmw.WithStats(g.readBy(o.meters)))
}

// spans makes spans of events.
type spans struct {
	tracer  trace.Tracer
	withKey bool
}

// observe makes a span when an Acquire has an outcome. Until then nobody can tell the
// observer's spans from those of other calls, and a span may begin in the past. A parent
// that another process has, and samples, is as good as one of this process.
func (s spans) observe(ctx context.Context, e lockmw.Event) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() && !parent.SpanContext().IsSampled() {
		return
	}
	switch e.Kind {
	case lockmw.EventAcquired:
		s.span(ctx, e, measure.OutcomeAcquired)
	case lockmw.EventRefused:
		s.span(ctx, e, measure.OutcomeRefused)
	case lockmw.EventSkipped:
		s.span(ctx, e, measure.OutcomeSkipped)
	case lockmw.EventAnswered:
		s.span(ctx, e, measure.OutcomeAnswered)
	case lockmw.EventFailedOpen:
		s.span(ctx, e, measure.OutcomeFailedOpen)
	case lockmw.EventSwitchedOff:
		s.span(ctx, e, measure.OutcomeOff)
	case lockmw.EventHandedOver:
		parent.AddEvent("lockmw.handed_over", trace.WithAttributes(s.attributes(e)...))
	case lockmw.EventLost:
		parent.AddEvent("lockmw.lost", trace.WithAttributes(s.attributes(e)...))
	case lockmw.EventAnswerNotKept:
		parent.AddEvent("lockmw.answer_not_kept", trace.WithAttributes(s.attributes(e)...))
	default:
	}
}

// span makes the span of an Acquire that has just ended. A refusal's status is an error,
// and says nothing: error.type has the code, and the error's text may have the key.
func (s spans) span(ctx context.Context, e lockmw.Event, outcome string) {
	end := time.Now()
	attributes := append(s.attributes(e), attribute.String("lockmw.outcome", outcome))
	if e.Queued {
		attributes = append(attributes, attribute.Bool("lockmw.queued", true))
	}
	if e.Kind == lockmw.EventRefused {
		attributes = append(attributes, attribute.String("error.type", measure.Reason(e)))
	}
	says := append(holder(e.Holder), trace.WithTimestamp(end.Add(-e.Waited)), trace.WithAttributes(attributes...))
	_, span := s.tracer.Start(ctx, "lockmw.acquire", says...)
	if e.Kind == lockmw.EventRefused {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
}

func (s spans) attributes(e lockmw.Event) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 6), attribute.String("lockmw.name", measure.Text(e.Name)), attribute.String("lockmw.mode", measure.Mode(e)))
	if s.withKey {
		all = append(all, attribute.String("lockmw.key", measure.Text(e.Key)))
	}
	return all
}
