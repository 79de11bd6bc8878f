package lockotel

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/lockmw"
)

// Note is for lockmw.WithNote. If the span under which a lock is taken is sampled, Note writes that span's ids into the lock's note. If
// not, it writes nothing. So whoever finds the lock held can follow the trace of the holder. If a call has waited for the lock or was
// refused, its span lockmw.acquire has a link to the holder's span. The call may be of another Locker or of the same one.
//
//	locks, err := lockmw.New(client, lockotel.New(), lockmw.WithNote(lockotel.Note))
//
// Note is off unless you give it to WithNote, because it has a price. The ids are 49 bytes, as "<trace id>-<span id>". The note is part of
// each command and message about the lock, and of what Redis keeps. A note of your own may have the ids as one of its words:
//
//	lockmw.WithNote(func(ctx context.Context) string { return requestID(ctx) + " " + lockotel.Note(ctx) })
//
// Another process may give the lock from one of its leases to the next without Redis's knowing. For up to a second, the note is then that
// of the first of these leases, and so is the link.
func Note(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return ""
	}
	return span.TraceID().String() + "-" + span.SpanID().String()
}

// spanIn returns the span whose ids Note has written into a note.
func spanIn(note string) (span trace.SpanContext, ok bool) {
	for word := range strings.FieldsSeq(note) {
		of, id, _ := strings.Cut(word, "-")
		c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
		if !readID(c.TraceID[:], of) || !readID(c.SpanID[:], id) {
			continue
		}
		if span = trace.NewSpanContext(c); span.IsValid() {
			return span, true
		}
	}
	return trace.SpanContext{}, false
}

// readID reads an id of just as many bytes as to has.
func readID(to []byte, text string) bool {
	if len(text) != hex.EncodedLen(len(to)) {
		return false
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// holder returns what the span of a call says of who had the lock.
func holder(h *lockmw.Holder) (says []trace.SpanStartOption) {
	if h == nil {
		return nil
	}
	if h.Instance != "" {
		says = append(says, trace.WithAttributes(attribute.String("lockmw.holder.instance", measure.Text(h.Instance))))
	}
	if h.Note != "" {
		says = append(says, trace.WithAttributes(attribute.String("lockmw.holder.note", measure.Text(h.Note))))
	}
	if span, ok := spanIn(h.Note); ok {
		says = append(says, trace.WithLinks(trace.Link{SpanContext: span}))
	}
	return says
}
