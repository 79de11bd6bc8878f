package matrix

import (
	"cmp"
	"maps"
	"reflect"
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

// answeredLane is a lane in which everything about an answer is right: w1 has made it, w2 has got it, and w3 has another request.
func answeredLane(uncertain bool) Outcome {
	call := func(worker string, asked, returned int, c history.Call) history.Call {
		c.Key, c.Print, c.Uncertain, c.Worker = "lane1/k", cmp.Or(c.Print, "a"), uncertain, worker
		c.Asked, c.Returned = time.Duration(asked)*time.Millisecond, time.Duration(returned)*time.Millisecond
		return c
	}
	const at = 12 * time.Millisecond
	return Outcome{
		Injections: []Injection{{Kind: "fault", Lane: "lane1", Began: at, At: at, Healed: at, Alive: at}},
		Holds:      []history.Hold{madeBy("w1", 5, 10, 20)},
		Answers: history.Answers{Calls: []history.Call{
			call("w1", 5, 21, history.Call{Ran: 1, Came: history.Answered, Answer: "w1/1"}),
			call("w2", 11, 25, history.Call{Came: history.Answered, Answer: "w1/1", Shared: true}),
			call("w3", 12, 28, history.Call{Print: "b", Came: history.OtherRequest}),
			call("w3", 30, 31, history.Call{Print: "b", Came: history.Refused}),
		}},
	}
}

// madeBy is a hold under which work was done. Its fence is when it began, in ms.
func madeBy(worker string, asked, began, ended int) history.Hold {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return history.Hold{
		Key: "lane1/k", Kind: history.Mutex, Worker: worker, ID: 1, Print: "a", Fence: int64(began),
		Asked: ms(asked), Began: ms(began), Ended: ms(ended), Freed: ms(ended + 1), Until: ms(ended + 1000), How: history.Released,
	}
}

// An answer is one for all who ask for the same, and each who asks is told what is true.
func TestJudgeFailsAnswersThatAreNotOneForAll(t *testing.T) {
	const ms = time.Millisecond
	// dies has w1 be killed in its work, so that w2 is told that nobody knows.
	dies := func(o *Outcome) {
		o.Holds[0].How, o.Answers.Calls[0].Returned = history.Killed, 0
		o.Answers.Calls[0] = history.Call{Key: "lane1/k", Print: "a", Uncertain: o.Answers.Calls[0].Uncertain, Worker: "w1", Asked: 5 * ms}
		c := &o.Answers.Calls[1]
		c.Came, c.Answer, c.Shared, c.Work, c.Returned = history.Uncertain, "", false, 10, 40*ms
	}
	// again has w2 do the work when w1 is over.
	again := func(o *Outcome) {
		o.Holds = append(o.Holds, madeBy("w2", 11, 30, 35))
		c := &o.Answers.Calls[1]
		c.Came, c.Answer, c.Shared, c.Work, c.Ran, c.Returned = history.Answered, "w2/1", false, 0, 1, 40*ms
	}
	resolved := func(how, answer string) func(o *Outcome) {
		return func(o *Outcome) {
			o.Answers.Resolutions = []history.Resolution{{Key: "lane1/k", Print: "a", Work: 10, How: how, Answer: answer}}
		}
	}
	unkept := func(key string) func(o *Outcome) {
		return func(o *Outcome) { o.Answers.Unkept = []history.Unkept{{Key: key, Worker: "w1"}} }
	}
	second := func(change func(c *history.Call)) func(o *Outcome) {
		return func(o *Outcome) { change(&o.Answers.Calls[1]) }
	}
	told := func(came string) func(o *Outcome) {
		return second(func(c *history.Call) { c.Came, c.Answer = came, "" })
	}
	// late has w2 ask when w4 has the answer.
	late := func(came string) func(o *Outcome) {
		return func(o *Outcome) {
			c := o.Answers.Calls[1]
			o.Answers.Calls[1].Worker = "w4"
			c.Asked, c.Returned, c.Came, c.Answer, c.Shared = 26*ms, 50*ms, came, "", false
			o.Answers.Calls = append(o.Answers.Calls, c)
		}
	}
	calmly := func(came string) func(o *Outcome) { // long after the fault
		return func(o *Outcome) {
			dies(o)
			o.Answers.Calls = o.Answers.Calls[:2]
			o.Holds[0] = madeBy("w1", 1005, 1010, 1020)
			o.Holds = append(o.Holds, history.Hold{Key: "lane1/x", Kind: history.Mutex, Worker: "w5", Began: ms, Ended: 20 * ms, How: history.Released})
			one, two := &o.Answers.Calls[0], &o.Answers.Calls[1]
			one.Asked, one.Returned, one.Ran, one.Came, one.Answer = 1005*ms, 1021*ms, 1, came, ""
			if came == history.Answered {
				one.Answer = "w1/1"
			}
			two.Asked, two.Returned, two.Work = 1022*ms, 1030*ms, 1010
		}
	}
	type changes = []func(o *Outcome)
	for name, tc := range map[string]struct {
		again   bool // by RunAgain
		changes changes
		want    []string
	}{
		"all is right": {},
		"its worker died, and others are told that nobody knows":   {changes: changes{dies}},
		"nobody is told so by RunAgain":                            {again: true, changes: changes{dies}, want: []string{"told that nobody knows, and asks by RunAgain"}},
		"its worker died, and another one has done it by RunAgain": {again: true, changes: changes{dies, again}},
		"its worker died, and another one has done it":             {changes: changes{dies, again}, want: []string{"work done again"}},
		"it was said that it was not done":                         {changes: changes{dies, again, resolved(history.Undone, "")}},
		"it was said that it was done":                             {changes: changes{dies, again, resolved(history.Done, "x")}, want: []string{"work done again"}},
		"it says that nothing was done":                            {changes: changes{dies, again, func(o *Outcome) { o.Holds[0].Fails = true }}},
		"two have an answer of their own":                          {again: true, changes: changes{again}, want: []string{"different answers"}},
		"Redis may not have that of the first one":                 {again: true, changes: changes{again, unkept("lane1/k")}},
		"Redis may not have another one's":                         {again: true, changes: changes{again, unkept("lane1/x")}, want: []string{"different answers"}},
		"the first one was killed":                                 {again: true, changes: changes{again, unkept("")}},
		"Redis may not have it, and another worker has it all the same": {
			again: true, changes: changes{again, unkept("lane1/k"), func(o *Outcome) {
				o.Answers.Calls = append(o.Answers.Calls, history.Call{
					Key: "lane1/k", Print: "a", Worker: "w4", Asked: 13 * ms, Returned: 30 * ms, Came: history.Answered, Answer: "w1/1", Shared: true,
				})
			}},
			want: []string{"different answers"},
		},
		"an answer to another request":    {changes: changes{second(func(c *history.Call) { c.Print = "b" })}, want: []string{"answer to another request, lane1/k a"}},
		"an answer to another key":        {changes: changes{second(func(c *history.Call) { c.Key = "lane1/l" })}, want: []string{"answer to another request, lane1/k a"}},
		"an answer out of nowhere":        {changes: changes{second(func(c *history.Call) { c.Answer = "w9/9" })}, want: []string{"different answers", "nobody has made this answer"}},
		"an answer by hand":               {changes: changes{dies, told(history.Answered), second(func(c *history.Call) { c.Answer, c.Shared, c.Work = "x", true, 0 }), resolved(history.Done, "x")}},
		"an answer of work that failed":   {changes: changes{func(o *Outcome) { o.Holds[0].Fails = true }}, want: []string{"answer of work that has failed", "answer of work that has failed"}},
		"another one's is called its own": {changes: changes{second(func(c *history.Call) { c.Shared = false })}, want: []string{"does not know whose answer it is"}},
		"its own is called another one's": {changes: changes{func(o *Outcome) { o.Answers.Calls[0].Shared = true }}, want: []string{"does not know whose answer it is"}},
		"nobody knows of work that nobody began": {
			changes: changes{dies, second(func(c *history.Call) { c.Work = 99 }), func(o *Outcome) {
				o.Answers.Calls[0].Returned, o.Answers.Calls[0].Came, o.Answers.Calls[0].Ran = 21*ms, history.Lost, 1
			}},
			want: []string{"told that nobody knows of work that nobody has begun"},
		},
		"nobody knows of work whose process died before":  {changes: changes{dies, second(func(c *history.Call) { c.Work = 99 })}},
		"nobody knows of another request":                 {changes: changes{dies, second(func(c *history.Call) { c.Print = "b" })}, want: []string{"told that nobody knows of another request"}},
		"nobody knows of work that goes on":               {changes: changes{dies, second(func(c *history.Call) { c.Returned = 19 * ms })}, want: []string{"told that nobody knows of work that was going on, under w1/1 until 20ms"}},
		"nobody knows of work that ended well":            {changes: changes{calmly(history.Answered)}, want: []string{"told that nobody knows of work that ended well, under w1/1 at 1.02s"}},
		"nobody knows of work that said that it was none": {changes: changes{calmly(history.Failed)}, want: []string{"told that nobody knows of work that ended well, under w1/1 at 1.02s"}},
		"nobody knows of work that was told to stop":      {changes: changes{calmly(history.Stopped)}},
		"its lease was over by then":                      {changes: changes{calmly(history.Answered), func(o *Outcome) { o.Holds[0].Until = o.Holds[0].Ended }}},
		"the release took long":                           {changes: changes{calmly(history.Failed), func(o *Outcome) { o.Holds[0].Freed += time.Second }}},
		"a fault struck at its end": {changes: changes{calmly(history.Failed), func(o *Outcome) {
			o.Injections = append(o.Injections, Injection{Kind: "fault", Lane: "lane1", Began: 1015 * ms, At: 1015 * ms, Healed: 1025 * ms, Alive: 1025 * ms})
		}}},
		"a late one is told that nobody knows": {changes: changes{late(history.Uncertain), func(o *Outcome) { o.Answers.Calls[4].Work = 10 }}, want: []string{"answer not given again"}},
		"a late one does the work":             {again: true, changes: changes{func(o *Outcome) { o.Holds = append(o.Holds, madeBy("w5", 26, 30, 35)) }}, want: []string{"answer not given again"}},
		"a late one is another request":        {changes: changes{late(history.OtherRequest)}, want: []string{"answer not given again"}},
		"a late one is refused":                {changes: changes{late(history.Refused)}},
		"there is no other request":            {changes: changes{func(o *Outcome) { o.Answers.Calls[2].Print, o.Answers.Calls[3].Print = "a", "a" }}, want: []string{"there is no other request"}},
		"nobody has discarded it":              {changes: changes{told(history.NotKept)}, want: []string{"nobody has discarded the work"}},
		"it was discarded":                     {changes: changes{told(history.NotKept), resolved(history.Settled, "")}},
		"refused in its work":                  {changes: changes{func(o *Outcome) { o.Answers.Calls[3].Ran = 7 }}, want: []string{"was refused, and its work had begun"}},
		"lost what it never had":               {changes: changes{told(history.Lost)}, want: []string{"has no work that could end so"}},
		"something else":                       {changes: changes{told("EOF")}, want: []string{"came to an end that has no name"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := answeredLane(!tc.again)
			for _, change := range tc.changes {
				change(&o)
			}
			var got []string
			for _, fault := range o.Faults() {
				what, _, _ := strings.Cut(fault, ": ")
				got = append(got, what)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("faults are\n%s\nwant %q", strings.Join(o.Faults(), "\n"), tc.want)
			}
		})
	}
}

// What several lanes told is kept apart.
func TestAnswersOfLanesAreToldApart(t *testing.T) {
	var o Outcome
	for _, lane := range []string{"lane1", "lane2"} {
		o.Add(lane, Outcome{Answers: history.Answers{
			Calls: []history.Call{{Key: "k"}}, Resolutions: []history.Resolution{{Key: "k"}}, Unkept: []history.Unkept{{Key: "k"}, {}},
		}})
	}
	want := history.Answers{
		Calls:       []history.Call{{Key: "lane1/k"}, {Key: "lane2/k"}},
		Resolutions: []history.Resolution{{Key: "lane1/k"}, {Key: "lane2/k"}},
		Unkept:      []history.Unkept{{Key: "lane1/k"}, {}, {Key: "lane2/k"}, {}},
	}
	if !reflect.DeepEqual(o.Answers, want) {
		t.Errorf("%+v, want %+v", o.Answers, want)
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

// A worker has so many jobs at most, and the others go to it when some of those are done.
func TestADeskGivesNoMoreThanAWorkerCanHave(t *testing.T) {
	d, one := newDesk(1, time.Hour), new(worker.Process)
	d.joins(one)
	for i := range 10 * worker.MostJobs {
		d.queued(worker.Job{ID: strconv.Itoa(i), Key: "h"})
	}
	for range 3 { // the second time there is no room
		d.due()
	}
	given := func() (ids []string) {
		for id, open := range d.open {
			if open.given > 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	first := given()
	if len(first) != worker.MostJobs {
		t.Fatalf("%d jobs were given, want %d", len(first), worker.MostJobs)
	}
	for _, id := range first[:5] {
		d.did(id)
	}
	d.due()
	if now := given(); len(now) != worker.MostJobs {
		t.Errorf("when five are done the worker has %d jobs, want %d", len(now), worker.MostJobs)
	}
	two := new(worker.Process)
	d.joins(two)
	d.joins(new(worker.Process)) // so that some jobs are given to two
	for range 2 {
		d.due()
	}
	has, both := make(map[*worker.Process]int), 0
	for _, open := range d.open {
		has[open.to]++
		if open.also != nil {
			has[open.also]++
			both++
		}
	}
	if both == 0 || has[one] != worker.MostJobs || has[two] > worker.MostJobs {
		t.Errorf("%d jobs were given to two; the workers have %d and %d, want %d at most", both, has[one], has[two], worker.MostJobs)
	}
}
