package matrix

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/worker"
)

// A fault in a lane where nobody holds anything says nothing about locks, so it must not pass.
func TestJudgeFailsKindsThatMeetNoHold(t *testing.T) {
	const began, healed = 100 * time.Millisecond, 200 * time.Millisecond
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	hold := func(lane string, from, to int) history.Hold {
		return history.Hold{Key: lane + "/m", Kind: history.Mutex, Began: ms(from), Ended: ms(to), How: history.Released}
	}
	for name, tc := range map[string]struct {
		holds []history.Hold
		met   int
	}{
		"nobody held anything yet":        {nil, 0},
		"released before it":              {[]history.Hold{hold("lane1", 10, 99)}, 0},
		"taken after it began":            {[]history.Hold{hold("lane1", 101, 150)}, 0},
		"held in another lane":            {[]history.Hold{hold("lane2", 10, 150)}, 0},
		"released during it":              {[]history.Hold{hold("lane1", 10, 150)}, 1},
		"held beyond it, and another one": {[]history.Hold{hold("lane1", 10, 90), hold("lane1", 95, 500)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Began: began, At: began, Healed: healed, Alive: healed}}, Holds: tc.holds}
			if got := o.Lines()[0].Met; got != tc.met {
				t.Errorf("it met %d holds, want %d", got, tc.met)
			}
			const want = "fault that met no hold, and proves nothing: fault"
			if failed := slices.Contains(o.Faults(), want); failed != (tc.met == 0) {
				t.Errorf("faults are %q, want %q among them: %v", o.Faults(), want, tc.met == 0)
			}
		})
	}
}

// One injection that meets a hold is enough for a kind, and is so for that kind alone.
func TestJudgeTellsKindsThatMeetNoHoldApart(t *testing.T) {
	var o Outcome
	for i, kind := range []string{"a", "b", "a", "b"} {
		at := time.Duration(i+1) * time.Second
		o.Injections = append(o.Injections, Injection{Kind: kind, Lane: "lane1", Began: at, At: at, Healed: at, Alive: at})
	}
	o.Holds = []history.Hold{{Key: "lane1/m", Kind: history.Mutex, Began: 2500 * time.Millisecond, Ended: 3500 * time.Millisecond, How: history.Released}}
	want := []string{"fault that met no hold, and proves nothing: b"}
	if got := o.Faults(); !slices.Equal(got, want) {
		t.Errorf("faults are %q, want %q", got, want)
	}
}

// What the log says of a kind answers whether it was judged: each number with its noun, and nothing that was not seen.
func TestWhatWasSeenIsSaidInWords(t *testing.T) {
	nothing := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Dead: []string{"m"}}}}
	for want, line := range map[string]record.Line{
		"met 0 holds, 0 began since its start, 0 lost, 0 overlaps": nothing.Lines()[0],
		"met 1 hold, 1,200 began since its start, 2 lost, 1 overlap, the next holder came up to 204.3ms before the end of a lost or killed one, " +
			"all short locks had a new holder within 12ms of its end, 2 holds forgotten, which the holders noticed within 300ms": {
			Met: 1, Holds: 1200, Lost: 2, Overlaps: 1, Margin: -204_345_678, Recovery: 12 * time.Millisecond, Forgotten: 2, Noticed: 300 * time.Millisecond,
		},
		"met 2 holds, 3 began since its start, 1 lost, 0 overlaps, the next holder came at least 40ms after the end of a lost or killed one": {
			Met: 2, Holds: 3, Lost: 1, Margin: 40 * time.Millisecond,
		},
	} {
		if got := seen(line); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// A ticket works once, unless Redis has forgotten that it was used.
func TestJudgeFailsTicketsThatWorkTwice(t *testing.T) {
	o := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Began: 12, At: 12, Healed: 13, Alive: 13}, {Kind: "forgets", Forgets: true, Lane: "lane2", Began: 12, At: 12, Healed: 13, Alive: 13}}}
	for i, lane := range []string{"lane1", "lane1", "lane2", "lane2"} {
		o.Holds = append(o.Holds, history.Hold{
			Key: lane + "/h", Kind: history.Mutex, Worker: "w", ID: i, Began: time.Duration(10 * (i + 1)), Ended: time.Duration(10*i + 15), How: history.Released, Ticket: lane + ".1/7",
		})
	}
	want := []string{"went on by one ticket: lane1/h: by the ticket of lane1.1/7 w/0 went on, and w/1"}
	got := slices.DeleteFunc(o.Faults(), func(fault string) bool { return !strings.HasPrefix(fault, "went on") })
	if !slices.Equal(got, want) {
		t.Errorf("faults are %q, want %q", got, want)
	}
}

// Nobody has a lock while it is a ticket's, where Redis keeps its word, and each job that is not lost is done.
func TestJudgeFailsLocksThatAreTakenFromTickets(t *testing.T) {
	var o Outcome
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for i, lane := range []string{"lane1", "lane2"} {
		at := ms(10)
		one := Outcome{
			Injections: []Injection{{Kind: lane, Forgets: i == 1, Lane: lane, Began: at, At: at, Healed: at, Alive: at}},
			Holds: []history.Hold{
				{
					Key: "h", Kind: history.Mutex, Worker: lane, ID: 1, Ended: ms(20), Freed: ms(21), Until: ms(1000), How: history.Released,
					HandsOn: lane, Lasts: ms(1000),
				},
				{Key: "h", Kind: history.Mutex, Worker: lane, ID: 2, Began: ms(30), Ended: ms(40), How: history.Released},
				{Key: "h", Kind: history.Mutex, Worker: lane, ID: 3, Asked: ms(80), Began: ms(90), Ended: ms(91), How: history.Released, Ticket: lane},
			},
			Uses: []history.Use{
				{Ticket: lane, Worker: lane, TTL: ms(1000), Asked: ms(45), Returned: ms(50), Came: history.Spent},
				{Ticket: lane, Worker: lane, TTL: ms(1000), Asked: ms(60), Returned: ms(70), Came: history.Discarded},
			},
			Undone: []string{lane},
		}
		o.Add(lane, one)
	}
	want := []string{
		"lock taken from its ticket: lane1/h: lane1/2 had the lock from 30ms to 40ms (released), " +
			"which lane1/1 had handed on to the ticket of lane1 at 21ms, where it was until 90ms",
		"ticket spent too soon: lane1/h: lane1 was told between 45ms and 50ms that the ticket of lane1 is spent; " +
			"lane1/1 handed the lock on to it at 21ms, and nobody had used it until 60ms",
		"went on by a ticket that was discarded: lane1/h: lane1/3 was asked for at 80ms, and went on by the ticket of lane1, which lane1 had discarded at 70ms",
		"job that was never done: lane1", "job that was never done: lane2",
	}
	if got := o.Faults(); !slices.Equal(got, want) {
		t.Errorf("faults are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A queue that is closed takes no job in, and tells which ones were never done.
func TestADeskTellsWhichJobsWereNeverDone(t *testing.T) {
	d := newDesk(1, time.Second)
	const jobs = 1000
	for i := range jobs {
		d.queued(worker.Job{ID: strconv.Itoa(i), Key: "h"})
	}
	lost := d.seen().Lost
	all := slices.Collect(maps.Keys(d.open))
	stays := all[0]
	for _, id := range all[1:] {
		d.did(id)
		d.did(id) // by another one, to whom it was given as well
	}
	left := d.close(time.Millisecond)
	if want := []string{stays + ", about h, was given to a worker 0 times, for the last time at 0s"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	d.queued(worker.Job{ID: "late"})
	got := d.seen()
	if got.Queued != jobs || got.Lost != lost || lost == 0 || got.Discarded == 0 || got.Lost+got.Discarded+got.Done != jobs-1 {
		t.Errorf("jobs are %+v, want that of %d all but one were lost, discarded or done", got, jobs)
	}
	d.did(stays)
	if left := d.close(time.Minute); left != nil {
		t.Errorf("when all are done, left are %q", left)
	}
}
