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

// Note is for lockmw.WithNote: it writes the ids of the span under which a lock is taken into the lock's note, if that span is sampled, and
// nothing otherwise. So whoever finds the lock held can follow the trace of the holder, and the span lockmw.acquire of a call of
// another Locker, or of the same one, that has waited for the lock or was refused has a link to the holder's span.
//
//	locks, err := lockmw.New(client, lockotel.New(), lockmw.WithNote(lockotel.Note))
//
// It is off unless it is given to WithNote, because it has a price: the ids are 49 bytes, as "<trace id>-<span id>", and the note is part of what
// each command and message about the lock, and Redis, have. A note of one's own may have the ids as one of its words:
//
//	lockmw.WithNote(func(ctx context.Context) string { return requestID(ctx) + " " + lockotel.Note(ctx) })
//
// Where leases of another process follow one another without Redis's knowing, the note is for up to a second that of the first of
// them, and so is the link.
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
