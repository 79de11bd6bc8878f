package outage

import "time"

// A Reach is whether a server can be reached, as far as that is known.
type Reach uint8

const (
	Reachable Reach = iota
	Suspected       // since a moment ago; it may be a restart
	Away            // for AwayAfter and longer
)

// An event is what changes a reach.
type event uint8

const (
	answered      event = iota // a reply came
	certainlyAway              // a ping says that the server is certainly away
	silent                     // nothing has been answered for SilentAfter
	lasting                    // the suspicion is AwayAfter old
)

// reaches are all transitions.
var reaches = [...][4]Reach{
	Reachable: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Reachable},
	Suspected: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Away},
	Away:      {answered: Reachable, certainlyAway: Away, silent: Away, lasting: Away},
}

const (
	// AwayAfter is how long a suspicion lasts before the server counts as away:
	// a restart of half a second is waited through.
	AwayAfter = time.Second

	// SilentAfter is how long nothing is answered before a server counts as
	// silent. No command is to have less time than that.
	SilentAfter = 250 * time.Millisecond
)

// A condition is the state of one server, without the means to find it.
type condition struct {
	reach Reach
	since time.Time // not reachable since then
	cause error     // what is known of why
}

// on takes in an event. at is since when a suspicion counts that begins with it.
// It reports whether the reach is another one now.
func (c *condition) on(e event, at time.Time, cause error) (changed bool) {
	was := c.reach
	switch c.reach = reaches[was][e]; {
	case c.reach == Reachable:
		*c = condition{}
	case was == Reachable:
		c.since, c.cause = at, cause
	case e == certainlyAway:
		c.cause = cause // a silent server may be a dead one by now
	}
	return c.reach != was
}
