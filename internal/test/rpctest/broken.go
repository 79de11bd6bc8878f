package rpctest

import (
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/failtest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
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
		"FunctionMayAskForTheMessage", "StreamWithoutAMessageIsRefused", "StreamHasOneContext", "NumberInAnotherSpellingIsTold",
	}},
	{"does not wait", []string{"WaiterIsServed", "FullQueueIsRefused", "WaiterWhoLeavesIsForgotten"}},
	{"never releases", []string{
		"LockIsHeldWhileTheHandlerRuns", "EveryExitReleases", "EveryExitOfAStreamReleases", "ClientWhoLeavesEndsTheWork",
	}},
	{"keeps a lease that comes too late", []string{"LeaseThatComesTooLateIsReleased"}},
	{"releases late", []string{"LockIsHeldWhileTheHandlerRuns", "StreamIsLockedFromStartToEnd"}},
	{"releases beside the answer", []string{"LockIsHeldWhileTheHandlerRuns"}},
	{"releases on return only", []string{"EveryExitReleases", "EveryExitOfAStreamReleases"}},
	{"takes failed work for done", []string{"SecondClickIsRefused"}},
	{"takes all work for failed", []string{"SecondClickIsRefused", "FailedWorkVoidsItsTicket"}},
	{"hands the lock of failed work on", []string{"FailedWorkVoidsItsTicket"}},
	{"takes work for failed whose client has left", []string{"SecondClickOfOneWhoLeftIsRefused"}},
	{"swallows panics", []string{"EveryExitReleases", "EveryExitOfAStreamReleases"}},
	{"keeps the call's own context", []string{"FailedWorkVoidsItsTicket", "HandlerFindsItsLease", "LostLockEndsTheWork", "LostLockEndsAStream", "StreamHasOneContext"}},
	{"loses the call's context", []string{
		"HandlerFindsItsLease", "NestedLockIsRefused", "WaitEndsWithTheDeadline", "WaiterWhoLeavesIsForgotten",
		"ClientWhoIsGoneGetsNothing", "ClientWhoLeavesEndsTheWork",
	}},
	{"gives a stream a new context each time", []string{"StreamHasOneContext"}},
	{"enforces what is in shadow", []string{"ShadowNeitherWaitsNorRefuses"}},
	{"awaits each release", []string{"AsyncReleaseIsNotAwaited"}},
	{"does not notice a loss", []string{"LostLockIsAnswered", "ErrorHandlerHearsOfALostLock", "LostLockKeepsTheHandlersError"}},
	{"keeps the handler's metadata", []string{"LostLockTakesHeadersBack"}},
	{"sends no header", []string{"SentHeaderIsSent"}},
	{"hides the handler's error", []string{"LostLockKeepsTheHandlersError"}},
	{"takes the other holder's key away", []string{"LostLockEndsTheWork"}},
	{"lets an ended stream go on", []string{"LostLockEndsAStream", "LongHoldEndsAStream", "StreamIsOverWithItsHandler"}},
	{"hides the errors of a stream", []string{"LostLockHoldsMessagesBack"}},
	{"forgets the longest hold", []string{"LongHoldEndsAStream"}},
	{"forgets the refusal of a stream", []string{"RefusalOfAStreamIsFinal"}},
	{"keeps messages back", []string{"StreamingSurvives", "SkippedStreamTakesNoLock"}},
	{"eats the message", []string{"BodyReachesTheHandler", "SkippedRequestTakesNoLock"}},
	{"asks Redis first", []string{"SlowBodyHoldsNoLock", "SilentClientHoldsNoLock", "RequestWithoutAKeyIsRefused", "SkippedRequestTakesNoLock", "SkippedStreamTakesNoLock"}},
	{"makes a key of its own for each call", []string{"SpellingsOfAFieldAreOneLock", "CounterIsExact"}},
	{"takes the last of several", []string{"NameWithTwoValuesIsRefused"}},
	{"trims fields", []string{"KeySeesWhatTheHandlerSees"}},
	{"takes one lock of several", []string{"SeveralKeysAreTakenTogether"}},
	{"ignores native keys", []string{"NativeKeyWorks", "NativeKeyOfAnotherDoorIsRefused"}},
	{"does not escape native keys", []string{"NativeKeyIsEscaped"}},
	{"blames the client", []string{"MistakeOfTheProgramIsTold", "NativeKeyOfAnotherDoorIsRefused"}},
	{"takes whatever is missing for empty", []string{"ValueThatIsMissingIsTold"}},
	{"takes nothing for optional", []string{"WhatIsOptionalMayBeMissing"}},
	{"does not know its method", []string{"EverySourceOfAKeyWorks"}},
	{"shows the error", []string{"BusyIsRefused", "OtherDataIsLeftAlone", "ErrorThatIsHandedOnShowsNothing"}},
	{"gives no details", []string{"BusyIsRefused", "CoolDownInvitesNobody"}},
	{"names nothing", []string{"RequestWithoutAKeyIsRefused"}},
	{"has one code for all", []string{"BusyIsRefused", "WaitEndsWithTheBudget"}},
	{"forgets the trailer", []string{"BusyIsRefused"}},
	{"removes other data", []string{"OtherDataIsLeftAlone"}},
	{"ignores error handlers", []string{"ErrorHandlerAnswers", "ErrorHandlerHearsOfALostLock"}},
	{"trusts error handlers", []string{"SilentErrorHandlerIsNoSuccess"}},
	{"checks nothing at the start", []string{"MistakesPanicAtTheStart", "MistakesOfIdempotentPanicAtTheStart"}},
	{"names the holder", []string{"OperatorsAloneLearnWhoIsInTheWay", "BusyIsRefused"}},
	{"shows the holder's note", []string{"OperatorsAloneLearnWhoIsInTheWay", "BusyIsRefused"}},
	{"asks for itself", []string{"OperatorsAloneLearnWhoIsInTheWay"}},
	{"forgets the policy's name", []string{"SettingCountsForTheNextRequest", "OffRunsTheWorkWithoutItsLock"}},

	// of a door that answers calls once
	{"answers each call", []string{"OffIsNotForIdempotent"}},
	{"answers each call", []string{"AnswerIsGivenAgain", "CallsAtTheSameTimeAreAnsweredOnce", "CallWithoutAKeyIsRefused"}},
	{"forgets answers", []string{"AnswerIsGivenAgain", "AnswerOfAnotherProcessIsGiven", "RequestIDIsAKey"}},
	{"replays no header", []string{"AnswerIsGivenAgain", "CallsAtTheSameTimeAreAnsweredOnce"}},
	{"keeps what is outside", []string{"WhatIsOutsideIsNoAnswer"}},
	{"replays no details", []string{"ErrorsAreAnswers"}},
	{"keeps answers for itself", []string{"AnswerOfAnotherProcessIsGiven", "CallsAtTheSameTimeAreAnsweredOnce", "AnswerThatCannotBeReadIsNoLeave"}},
	{"does not wait for the answer", []string{"CallsAtTheSameTimeAreAnsweredOnce"}},
	{"runs what was refused", []string{
		"OtherRequestUnderTheKeyIsRefused", "CallInProgressIsTold", "CallWithoutAKeyIsRefused", "LargeAnswerIsNotKept", "CallWithoutRedisIsRefused",
		"AnswerThatCannotBeReadIsNoLeave", "DeadProcessIsTold",
	}},
	{"takes any request for the same", []string{"OtherRequestUnderTheKeyIsRefused", "ErrorHandlerHearsOfARequest"}},
	{"ignores WithFingerprint", []string{"FingerprintDecides"}},
	{"takes methods for one", []string{"MethodsAreApart"}},
	{"takes users for one", []string{"UsersAreApart"}},
	{"takes whatever is missing for a key", []string{"RequestIDIsAKey", "CallWithoutAKeyIsRefused"}},
	{"ignores WithOptionalKey", []string{"CallWithoutAKeyMayRun"}},
	{"ignores WithSkipper", []string{"SkippedCallRuns"}},
	{"never skips", []string{"SkippedCallRuns"}},
	{"keeps everything", []string{"ErrorsAreAnswers", "UncertainErrorsAreKept"}},
	{"keeps replies alone", []string{"ErrorsAreAnswers", "UncertainErrorsAreKept"}},
	{"keeps nothing", []string{"AnswerIsGivenAgain", "KeepDecides"}},
	{"forgets what a crash means", []string{"UncertainErrorsAreKept", "DeadProcessIsTold", "HandlerThatIsToldToStopIsUncertain"}},
	{"ignores WithKeep", []string{"KeepDecides"}},
	{"hides the call from what is inside", []string{"RefusalOfALockIsNoAnswer", "NotAnAnswerIsNotKept", "HandlerSaysThatItDoesNotKnow"}},
	{"forgets the bound", []string{"LargeAnswerIsNotKept"}},
	{"keeps Do's bound", []string{"BoundMayBeRaised"}},
	{"ends the work with its client", []string{"ClientWhoLeavesFindsTheAnswer"}},
	{"keeps the deadline", []string{"ClientWhoLeavesFindsTheAnswer"}},
	{"keeps panics", []string{"PanicIsNoAnswer"}},
	{"does not notice a loss", []string{"LostAnswerIsTold"}},
	{"ignores error handlers", []string{"ErrorHandlerHearsOfARequest"}},
	{"forgets the codec", []string{"CodecEncodesAnswers"}},
	{"forgets the version", []string{"AnswerThatCannotBeReadIsNoLeave"}},
	{"shows the error", []string{"OtherRequestUnderTheKeyIsRefused", "CallInProgressIsTold"}},
	{"asks Redis first", []string{"StreamsGoOn"}},
	{"hides the call from what is inside", []string{"RefusalOfAnInnerLockLeavesNoDoubt", "LostInnerLockIsUncertain", "InnerMaxHoldIsUncertain"}},
	{"forgets what a crash means", []string{"LostInnerLockIsUncertain", "InnerMaxHoldIsUncertain"}},
	{"doubts whatever was told to stop", []string{"NothingWasDoneCountsAfterTheEnd"}},
}

// RunBroken breaks the door of each framework in every way, and fails the test unless
// the cases that must notice it do, and every case notices one. Doors of further frameworks
// are broken where BREAK_ALL_DOORS is set, which takes twice as long: make doors sets it, each night.
func RunBroken(t *testing.T, fws ...Framework) {
	t.Helper()
	byName := make(map[string]doorCase)
	for _, c := range cases {
		byName[c.name] = c
	}
	if os.Getenv("BREAK_ALL_DOORS") == "" {
		fws = fws[:1]
	}
	for _, fw := range fws {
		fw.checkMeaningless(t)
		t.Run(path.Join("breaks_nothing", fw.Name), func(t *testing.T) {
			slow.Test(t)
			for _, c := range cases {
				c.passes(t, fw)
			}
		})
		seen := make(map[string]bool)
		for _, fault := range faults {
			for _, name := range fault.cases {
				if fw.Meaningless[fault.name] != "" || fw.Meaningless[name] != "" {
					continue
				}
				seen[name] = true
				t.Run(path.Join(strings.ReplaceAll(fault.name, " ", "_"), name, fw.Name), func(t *testing.T) {
					t.Parallel() // most wait in vain
					byName[name].fails(t, fw, fault.name)
				})
			}
		}
		for name := range byName {
			if !seen[name] && fw.Meaningless[name] == "" {
				t.Errorf("no broken door %s is there for %s", fw.Name, name)
			}
		}
	}
}

// passes fails the test unless the case passes for a door around which there is a fault
// that is none. Otherwise the others would prove nothing.
func (c doorCase) passes(t *testing.T, fw Framework) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		if fw.Meaningless[c.name] == "" {
			redis := redistest.Embedded(t)
			c.check(newEnv(t, fw, &Fault{"breaks nothing", redis}, redis))
		}
	})
}

// fails fails the test unless the case fails for a door with the fault.
func (c doorCase) fails(t *testing.T, fw Framework, fault string) {
	t.Helper()
	p := failtest.New(t)
	p.Run(func() {
		redis := redistest.Embedded(p)
		e := newEnv(p, fw, &Fault{fault, redis}, redis)
		e.Patience = max(500*time.Millisecond, c.takes)
		c.check(e)
	})
	if !p.Failed() {
		t.Error("the case passes")
	}
	t.Logf("%.200s", p.Said())
}

// checkMeaningless fails the test if what is named there is neither a case nor a fault.
func (fw Framework) checkMeaningless(t *testing.T) {
	t.Helper()
	known := make(map[string]bool)
	for _, c := range cases {
		known[c.name] = true
	}
	for _, fault := range faults {
		known[fault.name] = true
	}
	for name := range fw.Meaningless {
		if !known[name] {
			t.Errorf("%s: there is no case or fault %q", fw.Package, name)
		}
	}
}
