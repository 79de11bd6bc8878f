package grpclock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/probe"
	"github.com/lockmw/kit/internal/redistest"
)

// faults are ways in which the door can be broken, and the cases that must
// notice it.
var faults = []struct {
	name  string
	cases []string
}{
	{"runs what was refused", []string{
		"BusyIsRefused", "WaitEndsWithTheBudget", "RedisThatIsDownIsRefused", "ClosedLockerIsRefused", "NestedLockIsRefused",
		"RequestWithoutAKeyIsRefused", "SilentErrorHandlerIsNoSuccess", "BusyStreamIsRefused",
	}},
	{"does not lock", []string{
		"LockIsHeldWhileTheHandlerRuns", "CounterIsExact", "StreamIsLockedFromStartToEnd", "BusyStreamIsRefused",
		"FunctionMayAskForTheMessage", "StreamWithoutAMessageIsRefused", "StreamHasOneContext",
	}},
	{"does not wait", []string{"WaiterIsServed", "FullQueueIsRefused", "WaiterWhoLeavesIsForgotten"}},
	{"never releases", []string{
		"LockIsHeldWhileTheHandlerRuns", "EveryExitReleases", "EveryExitOfAStreamReleases", "ClientWhoLeavesEndsTheWork",
	}},
	{"keeps a lease that comes too late", []string{"LeaseThatComesTooLateIsReleased"}},
	{"releases late", []string{"LockIsHeldWhileTheHandlerRuns", "StreamIsLockedFromStartToEnd"}},
	{"releases on return only", []string{"EveryExitReleases", "EveryExitOfAStreamReleases"}},
	{"swallows panics", []string{"EveryExitReleases", "EveryExitOfAStreamReleases"}},
	{"keeps the call's own context", []string{"HandlerFindsItsLease", "LostLockEndsTheWork", "LostLockEndsAStream", "StreamHasOneContext"}},
	{"loses the call's context", []string{
		"HandlerFindsItsLease", "NestedLockIsRefused", "WaitEndsWithTheDeadline", "WaiterWhoLeavesIsForgotten",
		"ClientWhoIsGoneGetsNothing", "ClientWhoLeavesEndsTheWork",
	}},
	{"gives a stream a new context each time", []string{"StreamHasOneContext"}},
	{"does not notice a loss", []string{"LostLockIsAnswered", "ErrorHandlerHearsOfALostLock", "LostLockKeepsTheHandlersError"}},
	{"keeps the handler's metadata", []string{"LostLockTakesHeadersBack"}},
	{"sends no header", []string{"SentHeaderIsSent"}},
	{"hides the handler's error", []string{"LostLockKeepsTheHandlersError"}},
	{"takes the other holder's key away", []string{"LostLockEndsTheWork"}},
	{"lets an ended stream go on", []string{"LostLockEndsAStream", "LongHoldEndsAStream"}},
	{"hides the errors of a stream", []string{"LostLockHoldsMessagesBack"}},
	{"forgets the longest hold", []string{"LongHoldEndsAStream"}},
	{"forgets the refusal of a stream", []string{"RefusalOfAStreamIsFinal"}},
	{"keeps messages back", []string{"StreamingSurvives", "SkippedStreamTakesNoLock"}},
	{"eats the message", []string{"BodyReachesTheHandler", "SkippedRequestTakesNoLock"}},
	{"asks Redis first", []string{"SlowBodyHoldsNoLock", "RequestWithoutAKeyIsRefused", "SkippedRequestTakesNoLock", "SkippedStreamTakesNoLock"}},
	{"makes a key of its own for each call", []string{"SpellingsOfAFieldAreOneLock", "CounterIsExact"}},
	{"takes the last of several", []string{"KeySeesWhatTheHandlerSees", "EverySourceOfAKeyWorks"}},
	{"takes one lock of several", []string{"SeveralKeysAreTakenTogether"}},
	{"ignores native keys", []string{"NativeKeyWorks", "NativeKeyOfAnotherDoorIsRefused"}},
	{"does not escape native keys", []string{"NativeKeyIsEscaped"}},
	{"blames the client", []string{"MistakeOfTheProgramIsTold", "NativeKeyOfAnotherDoorIsRefused"}},
	{"takes whatever is missing for empty", []string{"ValueThatIsMissingIsTold"}},
	{"takes nothing for optional", []string{"WhatIsOptionalMayBeMissing"}},
	{"does not know its method", []string{"EverySourceOfAKeyWorks"}},
	{"shows the error", []string{"BusyIsRefused", "OtherDataIsLeftAlone", "ErrorThatIsHandedOnShowsNothing"}},
	{"gives no details", []string{"BusyIsRefused"}},
	{"has one code for all", []string{"BusyIsRefused", "WaitEndsWithTheBudget"}},
	{"forgets the trailer", []string{"BusyIsRefused"}},
	{"removes other data", []string{"OtherDataIsLeftAlone"}},
	{"ignores error handlers", []string{"ErrorHandlerAnswers", "ErrorHandlerHearsOfALostLock"}},
	{"trusts error handlers", []string{"SilentErrorHandlerIsNoSuccess"}},
	{"checks nothing at the start", []string{"MistakesPanicAtTheStart"}},
}

func TestBrokenDoorIsNoticed(t *testing.T) {
	byName := make(map[string]doorCase)
	for _, c := range cases {
		byName[c.name] = c
	}
	for _, fault := range faults {
		for _, name := range fault.cases {
			t.Run(strings.ReplaceAll(fault.name, " ", "_")+"/"+name, func(t *testing.T) {
				t.Parallel() // most wait in vain
				c, p := byName[name], probe.New(t)
				p.Run(func() {
					redis := redistest.Embedded(p)
					e := newEnv(p, faulty{fault.name, redis}.doors(), redis)
					e.Patience = max(500*time.Millisecond, c.takes)
					c.check(e)
				})
				if !p.Failed() {
					t.Error("the case passes")
				}
				t.Logf("%.200s", p.Said())
			})
		}
	}
}

func TestEveryCaseIsSeenToFail(t *testing.T) {
	seen := make(map[string]bool)
	for _, fault := range faults {
		for _, name := range fault.cases {
			seen[name] = true
		}
	}
	for _, c := range cases {
		if !seen[c.name] {
			t.Errorf("no broken door is there for %s", c.name)
		}
	}
}
