package lockmw

import (
	"errors"
	"time"

	"github.com/lockmw/kit/internal/recent"
)

// incident is what is kept for operators of a claim that ends without its lock, as e says.
func (c *claim) incident(e Event) recent.Incident {
	i := recent.Incident{At: time.Now(), Kind: e.Kind.String(), Name: e.Name, Key: e.Key, Reason: e.Reason, Waited: e.Waited}
	if c.refusal != nil && c.refusal.Holder != nil {
		i.Holder = c.refusal.Holder.Instance
	}
	if e.Kind == EventFailedOpen {
		i.Reason = CodeBackendUnavailable
	}
	return i
}

// happened keeps for operators what happened to the lease.
func (l *Lease) happened(kind EventKind, reason error) {
	i := recent.Incident{At: time.Now(), Kind: kind.String(), Name: l.policy.Name, Key: l.ref.Key, Held: time.Since(l.start)}
	switch {
	case errors.Is(reason, ErrMaxHold):
		i.Reason = "longer than MaxHold"
	case kind == EventStuck:
		i.Reason = "for many TTLs"
	case reason != nil: // one of the fixed texts with which a tenure ends
		i.Reason = reason.Error()
	}
	l.locker.recent.Happened(i)
}
