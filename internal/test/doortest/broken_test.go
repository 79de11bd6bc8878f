package doortest

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/failtest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// faults are ways in which a door can be broken, and the cases that must
// notice it.
var faults = []struct {
	name  string
	cases []string
}{
	{"runs what was refused", []string{
		"BusyIsRefused", "WaitEndsWithTheBudget", "RedisThatIsDownIsRefused", "ClosedLockerIsRefused", "RequestWithoutAKeyIsRefused",
		"SilentErrorHandlerIsNoSuccess",
	}},
	{"does not lock", []string{"LockIsHeldWhileTheHandlerRuns", "CounterIsExact"}},
	{"does not wait", []string{"WaiterIsServed", "FullQueueIsRefused", "WaiterWhoLeavesIsForgotten"}},
	{"never releases", []string{"LockIsHeldWhileTheHandlerRuns", "EveryExitReleases", "ClientWhoLeavesEndsTheWork"}},
	{"releases late", []string{"LockIsHeldWhileTheHandlerRuns"}},
	{"releases beside the answer", []string{"LockIsHeldWhileTheHandlerRuns"}},
	{"releases on return only", []string{"EveryExitReleases"}},
	{"takes failed work for done", []string{"SecondClickIsRefused", "FailedWorkVoidsItsTicket"}},
	{"takes all work for failed", []string{"SecondClickIsRefused", "FailedWorkVoidsItsTicket"}},
	{"takes work for failed whose client has left", []string{"SecondClickIsRefused", "FailedWorkVoidsItsTicket"}},
	{"says when a cool-down is over", []string{"CoolDownInvitesNobody"}},
	{"swallows panics", []string{"EveryExitReleases"}},
	{"changes the request for good", []string{"RequestIsPutBack"}},
	{"keeps the request's own context", []string{"HandlerFindsItsLease", "LostLockEndsTheWork", "FailedWorkVoidsItsTicket"}},
	{"loses the request's context", []string{
		"HandlerFindsItsLease", "NestedLockIsRefused", "WaitEndsWithTheDeadline", "WaiterWhoLeavesIsForgotten",
		"ClientWhoIsGoneGetsNothing", "ClientWhoLeavesEndsTheWork",
	}},
	{"does not notice a loss", []string{"LostLockIsAnswered", "LostLockReplacesAHeldResponse", "ErrorHandlerHearsOfALostLock"}},
	{"keeps the handler's headers", []string{"LostLockTakesHeadersBack"}},
	{"takes an empty copy for an answer", []string{"EmptyCopyIsNoAnswer"}},
	{"does not look past its writer", []string{"AnswerPastTheWriterIsAnAnswer"}},
	{"always answers a loss", []string{"LostLockLeavesAWrittenResponse", "LostLockLeavesAResponseOverTheLimit"}},
	{"takes the other holder's key away", []string{"LostLockEndsTheWork"}},
	{"hides the writer", []string{"StreamingSurvives", "HijackingSurvives", "ConnectionIsWithinReach"}},
	{"takes whatever is written", []string{"WrongStatusPanicsInTheHandler", "ResponseWithoutABodyTakesNone", "BodyOverItsLengthIsRefused"}},
	{"forgets uploads", []string{"UploadedFilesAreRemoved"}},
	{"eats the body", []string{"BodyReachesTheHandler", "SkippedRequestTakesNoLock", "NativeKeyMayReadTheBody"}},
	{"waits for bodies", []string{"SilentBodyEndsTheHold", "TrickleHoldsNoLock", "EndlessBodyEndsTheHold", "EndedLockEndsTheBody", "ReaderLeftBehindEnds"}},
	{"waits for bodies before it answers", []string{"AnswerDoesNotWaitForTheBody"}},
	{"asks for every body", []string{"AnswerInPlaceOfContinue"}},
	{"drops what it has read for an answer", []string{"BodyCanBeReadAfterTheAnswerHasBegun"}},
	{"cuts uploads off", []string{"UploadThatComesIsNotDisturbed"}},
	{"leaves bodies open", []string{"ClosedBodyIsNotRead"}},
	{"loses trailers", []string{"TrailersArrive"}},
	{"disturbs the connection", []string{"HijackedConnectionIsLeftAlone"}},
	{"locks before it reads", []string{"SlowBodyHoldsNoLock", "DrippingBodyHoldsNoLock", "RequestWithoutAKeyIsRefused", "BodyOverTheLimitIsRefused"}},
	{"has a high limit for bodies", []string{"BodyOverTheLimitIsRefused", "HugeBodiesCostLittle"}},
	{"takes JSON as it is written", []string{"SpellingsOfAFieldAreOneLock"}},
	{"takes every body for JSON", []string{"BodyThatIsNotJSONIsRefused"}},
	{"knows JSON without parameters only", []string{"JSONMayHaveParameters"}},
	{"looks for a name in one place", []string{"NameInTwoPlacesIsRefused", "LongFormIsRefused"}},
	{"takes parameters as they are written", []string{"KeySeesWhatTheHandlerSees"}},
	{"takes the last of several", []string{"KeySeesWhatTheHandlerSees", "NameWithTwoValuesIsRefused"}},
	{"does not know its route", []string{"EverySourceOfAKeyWorks"}},
	{"shows the error", []string{"BusyIsRefused", "OtherDataIsLeftAlone", "NativeKeyOfAnotherDoorIsRefused"}},
	{"names nothing", []string{"RequestWithoutAKeyIsRefused", "NameInTwoPlacesIsRefused"}},
	{"answers in plain text", []string{"BusyIsRefused"}},
	{"removes other data", []string{"OtherDataIsLeftAlone"}},
	{"locks what is to be skipped", []string{"SkippedRequestTakesNoLock"}},
	{"ignores error handlers", []string{"ErrorHandlerAnswers", "ErrorHandlerHearsOfALostLock"}},
	{"trusts error handlers", []string{"SilentErrorHandlerIsNoSuccess"}},
	{"enforces what is in shadow", []string{"ShadowNeitherWaitsNorRefuses"}},
	{"awaits each release", []string{"AsyncReleaseIsNotAwaited"}},
	{"does not hold responses back", []string{"AsyncReleaseIsNotAwaited", "LostLockReplacesAHeldResponse", "SlowReaderOfABufferedResponseHoldsNoLock"}},
	{"drops held headers", []string{"BufferedResponseIsTheSame", "AnswerToHeadHasNoBody"}},
	{"makes no difference of methods", []string{"SafeMethodsShareTheLock"}},
	{"shares with all methods", []string{"SafeMethodsShareTheLock"}},
	{"checks nothing at the start", []string{"MistakesPanicAtTheStart"}},
	{"does not escape native keys", []string{"NativeKeyIsEscaped"}},
	{"blames the client", []string{"MistakeOfTheProgramIsTold", "NativeKeyOfAnotherDoorIsRefused"}},
	{"takes whatever is missing for empty", []string{"ValueThatIsMissingIsTold"}},
	{"does not lock", []string{"NumberInAnotherSpellingIsTold"}},
	{"takes nothing for optional", []string{"WhatIsOptionalMayBeMissing"}},
	{"takes one lock of several", []string{"SeveralKeysAreTakenTogether"}},
	{"does not lock", []string{ // which is to do the work each time
		"DoubleClickGetsOneAnswer", "SecondClickWaitsForTheAnswer", "WorkInProgressIsRefused", "ClientWhoLeavesGetsTheAnswerLater",
		"AnswersBelow500AreKept", "KeepDecidesWhatIsKept", "ErrorOfTheHandlerIsAnswered", "AnswerThatIsNotKeptIsTold",
		"AnswerUpToTheLimitIsKept", "AnswerIsKeptBeforeItIsSent", "ForgedAnswerIsNotSent", "CodecOfTheProgramWorks",
	}},
	{"names the holder", []string{"OperatorsAloneLearnWhoIsInTheWay", "BusyIsRefused"}},
	{"shows the holder's note", []string{"OperatorsAloneLearnWhoIsInTheWay", "BusyIsRefused"}},
	{"asks for itself", []string{"OperatorsAloneLearnWhoIsInTheWay"}},
	{"forgets the policy's name", []string{"SettingCountsForTheNextRequest", "OffRunsTheWorkWithoutItsLock"}},
	{"takes Idempotent for a lock", []string{"OffIsNotForIdempotent"}},
	{"forgets what a crash means", []string{"UncertainErrorsAreKept"}},
	{"keeps every answer", []string{"UncertainErrorsAreKept"}},
	{"has one fingerprint for all", []string{"OtherRequestUnderTheKeyIsRefused"}},
	{"takes bodies as they are sent", []string{"OtherRequestUnderTheKeyIsRefused"}},
	{"has one key for all routes", []string{"KeyIsOfOneRoute"}},
	{"knows no users", []string{"KeyIsOfOneUser"}},
	{"takes keys as they are written", []string{"QuotedKeyIsTheSame"}},
	{"runs without a key", []string{"KeyIsNeeded"}},
	{"asks safe methods for a key", []string{"SafeMethodsPass"}},
	{"locks what is to be skipped", []string{"SkippedRequestIsNotKept"}},
	{"has a high limit for bodies", []string{"LongBodyIsNotFingerprinted"}},
	{"ends the work with the client", []string{"ClientWhoLeavesGetsTheAnswerLater"}},
	{"loses the request's context", []string{"WaiterWhoLeavesDoesNoWork", "HandlerSaysThatItDoesNotKnow", "RefusalOfAnInnerLockIsNoAnswer", "RefusalThatTheHandlerWritesIsNoAnswer", "NotAnAnswerIsNotKept"}},
	{"runs what was refused", []string{"RedisThatIsDownRefusesTheWork", "DeadProcessIsTold"}},
	{"forgets what a crash means", []string{"DeadProcessIsTold", "HandlerThatIsToldToStopHasNotAnswered", "HandlerSaysThatItDoesNotKnow"}},
	{"ignores error handlers", []string{"ErrorHandlerAnswersForIdempotent"}},
	{"checks nothing at the start", []string{"MistakesOfIdempotentPanicAtTheStart"}},
	{"keeps every answer", []string{"AnswersBelow500AreKept", "KeepDecidesWhatIsKept"}},
	{"replays every header", []string{"OnlyTheHandlersHeaderIsReplayed"}},
	{"keeps every size", []string{"AnswerThatIsNotKeptIsTold"}},
	{"holds nothing back", []string{"AnswerIsKeptBeforeItIsSent", "ConnectionIsNotGivenAway"}},
	{"swallows panics", []string{"PanicIsNoAnswer"}},
	{"does not notice a loss", []string{"LostLockKeepsNoAnswer"}},
	{"loses the request's context", []string{"RefusalOfAnInnerLockLeavesNoDoubt", "LostInnerLockIsUncertain", "InnerMaxHoldIsUncertain"}},
	{"forgets what a crash means", []string{"LostInnerLockIsUncertain", "InnerMaxHoldIsUncertain", "FirstClientIsToldOfUncertainWork"}},
	{"doubts whatever was told to stop", []string{"NothingWasDoneCountsAfterTheEnd"}},
	{"tells the first client the bare error", []string{"FirstClientIsToldOfUncertainWork"}},
	{"ignores native keys", []string{"NativeKeyWorks", "NativeKeyOfAnotherDoorIsRefused"}},
}

func TestSoundDoorPasses(t *testing.T) {
	slow.Test(t)
	Run(t, faultyDoor{}.framework())
}

func TestBrokenDoorIsNoticed(t *testing.T) {
	byName := make(map[string]Case)
	for _, c := range Cases() {
		byName[c.Name] = c
	}
	for _, fault := range faults {
		for _, name := range fault.cases {
			t.Run(strings.ReplaceAll(fault.name, " ", "_")+"/"+name, func(t *testing.T) {
				t.Parallel() // most wait in vain
				p := failtest.New(t)
				p.Run(func() {
					redis := redistest.Embedded(p)
					e := newEnv(p, faultyDoor{fault.name, redis}.framework(), redis)
					e.Patience = time.Second // longer than a sound door needs for any case
					byName[name].check(e)
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
	for _, c := range Cases() {
		if !seen[c.Name] {
			t.Errorf("no broken door is there for %s", c.Name)
		}
	}
}
