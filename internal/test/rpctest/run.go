package rpctest

import (
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// A doorCase is one behaviour. One that the HTTP doors have, too, has the name
// that it has in doortest.
type doorCase struct {
	name string // a sentence
	// embedded tells that it needs a Redis that can be broken.
	embedded bool
	takes    time.Duration // how long a sound door may need, if that is long
	// waits tells that it mostly waits: it runs side by side with others that do, when all that keep the machine busy are done.
	waits bool
	check func(e *env)
}

var cases = []doorCase{
	// refuse.go
	{name: "BusyIsRefused", check: busyIsRefused},
	{name: "WaiterIsServed", check: waiterIsServed},
	{name: "WaitEndsWithTheBudget", check: waitEndsWithTheBudget},
	{name: "WaitEndsWithTheDeadline", takes: 2 * time.Second, check: waitEndsWithTheDeadline},
	{name: "FullQueueIsRefused", check: fullQueueIsRefused},
	{name: "RedisThatIsDownIsRefused", takes: 2 * time.Second, embedded: true, check: redisThatIsDownIsRefused},
	{name: "ClosedLockerIsRefused", check: closedLockerIsRefused},
	{name: "OtherDataIsLeftAlone", check: otherDataIsLeftAlone},
	{name: "NestedLockIsRefused", check: nestedLockIsRefused},
	{name: "WaiterWhoLeavesIsForgotten", check: waiterWhoLeavesIsForgotten},
	{name: "ClientWhoIsGoneGetsNothing", check: clientWhoIsGoneGetsNothing},

	// inway.go
	{name: "OperatorsAloneLearnWhoIsInTheWay", takes: 2 * time.Second, waits: true, check: operatorsAloneLearnWhoIsInTheWay},

	// settings.go
	{name: "SettingCountsForTheNextRequest", takes: 2 * time.Second, waits: true, check: settingCountsForTheNextRequest},
	{name: "OffRunsTheWorkWithoutItsLock", check: offRunsTheWorkWithoutItsLock},
	{name: "OffIsNotForIdempotent", check: offIsNotForIdempotent},

	// hold.go
	{name: "LockIsHeldWhileTheHandlerRuns", check: lockIsHeldWhileTheHandlerRuns},
	{name: "HandlerFindsItsLease", check: handlerFindsItsLease},
	{name: "EveryExitReleases", check: everyExitReleases},
	{name: "EveryExitOfAStreamReleases", check: everyExitOfAStreamReleases},
	{name: "SecondClickIsRefused", check: secondClickIsRefused},
	{name: "FailedWorkVoidsItsTicket", check: failedWorkVoidsItsTicket},
	{name: "CoolDownInvitesNobody", check: coolDownInvitesNobody},
	{name: "SecondClickOfOneWhoLeftIsRefused", check: secondClickOfOneWhoLeftIsRefused},
	{name: "ClientWhoLeavesEndsTheWork", check: clientWhoLeavesEndsTheWork},
	{name: "CounterIsExact", check: counterIsExact},

	// lost.go
	{name: "LostLockEndsTheWork", takes: time.Second, check: lostLockEndsTheWork},
	{name: "LostLockIsAnswered", check: lostLockIsAnswered},
	{name: "ShadowNeitherWaitsNorRefuses", check: shadowNeitherWaitsNorRefuses},
	{name: "AsyncReleaseIsNotAwaited", check: asyncReleaseIsNotAwaited},
	{name: "LostLockTakesHeadersBack", check: lostLockTakesHeadersBack},
	{name: "SentHeaderIsSent", check: sentHeaderIsSent},
	{name: "LostLockKeepsTheHandlersError", check: lostLockKeepsTheHandlersError},
	{name: "LostLockEndsAStream", takes: time.Second, check: lostLockEndsAStream},
	{name: "LongHoldEndsAStream", check: longHoldEndsAStream},
	{name: "LostLockHoldsMessagesBack", takes: time.Second, check: lostLockHoldsMessagesBack},

	// key.go
	{name: "RequestWithoutAKeyIsRefused", check: requestWithoutAKeyIsRefused},
	{name: "KeySeesWhatTheHandlerSees", check: keySeesWhatTheHandlerSees},
	{name: "NameWithTwoValuesIsRefused", check: nameWithTwoValuesIsRefused},
	{name: "NumberInAnotherSpellingIsTold", check: numberInAnotherSpellingIsTold},
	{name: "EverySourceOfAKeyWorks", check: everySourceOfAKeyWorks},
	{name: "SeveralKeysAreTakenTogether", check: severalKeysAreTakenTogether},
	{name: "SkippedRequestTakesNoLock", check: skippedRequestTakesNoLock},
	{name: "BodyReachesTheHandler", check: bodyReachesTheHandler},
	{name: "SpellingsOfAFieldAreOneLock", check: spellingsOfAFieldAreOneLock},

	// misuse.go
	{name: "NativeKeyWorks", check: nativeKeyWorks},
	{name: "NativeKeyIsEscaped", check: nativeKeyIsEscaped},
	{name: "NativeKeyOfAnotherDoorIsRefused", check: nativeKeyOfAnotherDoorIsRefused},
	{name: "MistakeOfTheProgramIsTold", embedded: true, check: mistakeOfTheProgramIsTold},
	{name: "WhatIsOptionalMayBeMissing", check: whatIsOptionalMayBeMissing},
	{name: "ValueThatIsMissingIsTold", embedded: true, check: valueThatIsMissingIsTold},

	// options.go
	{name: "ErrorHandlerAnswers", check: errorHandlerAnswers},
	{name: "SilentErrorHandlerIsNoSuccess", check: silentErrorHandlerIsNoSuccess},
	{name: "ErrorThatIsHandedOnShowsNothing", check: errorThatIsHandedOnShowsNothing},
	{name: "ErrorHandlerHearsOfALostLock", check: errorHandlerHearsOfALostLock},
	{name: "MistakesPanicAtTheStart", check: mistakesPanicAtTheStart},

	// stream.go
	{name: "StreamingSurvives", check: streamingSurvives},
	{name: "SlowBodyHoldsNoLock", check: slowBodyHoldsNoLock},
	{name: "SilentClientHoldsNoLock", check: silentClientHoldsNoLock},
	{name: "StreamIsLockedFromStartToEnd", check: streamIsLockedFromStartToEnd},
	{name: "BusyStreamIsRefused", check: busyStreamIsRefused},
	{name: "RefusalOfAStreamIsFinal", check: refusalOfAStreamIsFinal},
	{name: "StreamWithoutAMessageIsRefused", check: streamWithoutAMessageIsRefused},
	{name: "StreamHasOneContext", takes: time.Second, check: streamHasOneContext},
	{name: "StreamIsOverWithItsHandler", check: streamIsOverWithItsHandler},
	{name: "FunctionMayAskForTheMessage", check: functionMayAskForTheMessage},
	{name: "SkippedStreamTakesNoLock", check: skippedStreamTakesNoLock},

	// late.go
	{name: "LeaseThatComesTooLateIsReleased", check: leaseThatComesTooLateIsReleased},

	// once.go
	{name: "AnswerIsGivenAgain", check: answerIsGivenAgain},
	{name: "WhatIsOutsideIsNoAnswer", check: whatIsOutsideIsNoAnswer},
	{name: "AnswerOfAnotherProcessIsGiven", check: answerOfAnotherProcessIsGiven},
	{name: "CallsAtTheSameTimeAreAnsweredOnce", check: callsAtTheSameTimeAreAnsweredOnce},
	{name: "OtherRequestUnderTheKeyIsRefused", check: otherRequestUnderTheKeyIsRefused},
	{name: "FingerprintDecides", check: fingerprintDecides},
	{name: "MethodsAreApart", check: methodsAreApart},
	{name: "UsersAreApart", check: usersAreApart},
	{name: "RequestIDIsAKey", check: requestIDIsAKey},
	{name: "CallInProgressIsTold", check: callInProgressIsTold},
	{name: "CallWithoutAKeyIsRefused", check: callWithoutAKeyIsRefused},
	{name: "CallWithoutAKeyMayRun", check: callWithoutAKeyMayRun},
	{name: "SkippedCallRuns", check: skippedCallRuns},
	{name: "ErrorsAreAnswers", check: errorsAreAnswers},
	{name: "UncertainErrorsAreKept", check: uncertainErrorsAreKept},
	{name: "KeepDecides", check: keepDecides},
	{name: "RefusalOfALockIsNoAnswer", check: refusalOfALockIsNoAnswer},
	{name: "NotAnAnswerIsNotKept", check: notAnAnswerIsNotKept},
	{name: "LargeAnswerIsNotKept", check: largeAnswerIsNotKept},
	{name: "BoundMayBeRaised", check: boundMayBeRaised},
	{name: "ClientWhoLeavesFindsTheAnswer", check: clientWhoLeavesFindsTheAnswer},
	{name: "PanicIsNoAnswer", check: panicIsNoAnswer},
	{name: "HandlerThatIsToldToStopIsUncertain", check: handlerThatIsToldToStopIsUncertain},
	{name: "HandlerSaysThatItDoesNotKnow", check: handlerSaysThatItDoesNotKnow},
	{name: "DeadProcessIsTold", check: deadProcessIsTold},
	{name: "CallWithoutRedisIsRefused", embedded: true, check: callWithoutRedisIsRefused},
	{name: "LostAnswerIsTold", takes: time.Second, check: lostAnswerIsTold},
	{name: "ErrorHandlerHearsOfARequest", check: errorHandlerHearsOfARequest},
	{name: "CodecEncodesAnswers", check: codecEncodesAnswers},
	{name: "AnswerThatCannotBeReadIsNoLeave", check: answerThatCannotBeReadIsNoLeave},
	{name: "MistakesOfIdempotentPanicAtTheStart", check: mistakesOfIdempotentPanicAtTheStart},
	{name: "StreamsGoOn", check: streamsGoOn},

	// inner.go
	{name: "RefusalOfAnInnerLockLeavesNoDoubt", check: refusalOfAnInnerLockLeavesNoDoubt},
	{name: "LostInnerLockIsUncertain", check: lostInnerLockIsUncertain},
	{name: "InnerMaxHoldIsUncertain", check: innerMaxHoldIsUncertain},
	{name: "NothingWasDoneCountsAfterTheEnd", check: nothingWasDoneCountsAfterTheEnd},
}

// Run runs the suite: a case against an embedded Redis, and where it can against a real
// one too, which a quick run leaves out. With several frameworks, which have names, a case
// runs for each of them. The package's TestMain must be redistest.Main.
func Run(t *testing.T, fws ...Framework) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.waits {
				t.Parallel()
			}
			for _, fw := range fws {
				each(t, fw, func(t *testing.T) { c.run(t, fw) })
			}
		})
	}
}

// each runs f as the subtest of a framework that has a name.
func each(t *testing.T, fw Framework, f func(*testing.T)) {
	t.Helper()
	if fw.Name == "" {
		f(t)
		return
	}
	t.Run(fw.Name, f)
}

// run runs the case, unless it says nothing about the framework.
func (c doorCase) run(t *testing.T, fw Framework) {
	t.Helper()
	switch {
	case fw.Meaningless[c.name] != "":
	case c.embedded:
		c.check(newEnv(t, fw, nil, redistest.Embedded(t)))
	default:
		redistest.Each(t, func(t *testing.T, s redistest.Backend) {
			if _, embedded := s.(*redistest.Mini); !embedded {
				slow.Test(t)
			}
			c.check(newEnv(t, fw, nil, s))
		})
	}
}
