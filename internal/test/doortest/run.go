package doortest

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// A Case is one behaviour that every door has.
type Case struct {
	Name string // a sentence
	// embedded tells that it needs a Redis that can be broken, or is slow.
	embedded bool
	// bubble tells that it takes seconds: it runs on the clock of a synctest
	// bubble, in which a second is over when nobody has anything to do.
	bubble bool
	// slow leaves it out of a quick run.
	slow bool
	// waits tells that it mostly waits: it runs side by side with others that do, when
	// all that keep the machine busy or lose a lock by a short TTL are done.
	waits bool
	check func(e *env)
}

// Run runs the whole suite for a framework: against an embedded Redis, and
// where it can, against a real one too, which a quick run leaves out: Redis is
// the engine's affair. The package's TestMain must be redistest.Main.
func Run(t *testing.T, fw Framework) {
	meaningless := maps.Clone(fw.Meaningless)
	for _, c := range Cases() {
		if meaningless[c.Name] != "" {
			delete(meaningless, c.Name)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if c.slow {
				slow.Test(t)
			}
			if c.waits {
				t.Parallel()
			}
			switch {
			case c.bubble:
				synctest.Test(t, func(t *testing.T) {
					e := newEnv(t, fw, redistest.InMemory(t))
					e.inMemory = true
					c.check(e)
				})
			case c.embedded:
				c.check(newEnv(t, fw, redistest.Embedded(t)))
			default:
				redistest.Each(t, func(t *testing.T, s redistest.Backend) {
					if _, embedded := s.(*redistest.Mini); !embedded {
						slow.Test(t)
					}
					c.check(newEnv(t, fw, s))
				})
			}
		})
	}
	for name := range meaningless {
		t.Errorf("%q is said to be meaningless, and is no case", name)
	}
}

// Cases returns all cases.
func Cases() []Case {
	return []Case{
		// refuse.go
		{Name: "BusyIsRefused", check: busyIsRefused},
		{Name: "WaiterIsServed", check: waiterIsServed},
		{Name: "WaitEndsWithTheBudget", check: waitEndsWithTheBudget},
		{Name: "WaitEndsWithTheDeadline", waits: true, check: waitEndsWithTheDeadline},
		{Name: "FullQueueIsRefused", check: fullQueueIsRefused},
		{Name: "RedisThatIsDownIsRefused", embedded: true, waits: true, check: redisThatIsDownIsRefused},
		{Name: "ClosedLockerIsRefused", check: closedLockerIsRefused},
		{Name: "OtherDataIsLeftAlone", check: otherDataIsLeftAlone},
		{Name: "NestedLockIsRefused", check: nestedLockIsRefused},
		{Name: "WaiterWhoLeavesIsForgotten", check: waiterWhoLeavesIsForgotten},
		{Name: "ClientWhoIsGoneGetsNothing", check: clientWhoIsGoneGetsNothing},

		// inway.go
		{Name: "OperatorsAloneLearnWhoIsInTheWay", waits: true, check: operatorsAloneLearnWhoIsInTheWay},

		// settings.go
		{Name: "SettingCountsForTheNextRequest", waits: true, check: settingCountsForTheNextRequest},
		{Name: "OffRunsTheWorkWithoutItsLock", check: offRunsTheWorkWithoutItsLock},
		{Name: "OffIsNotForIdempotent", check: offIsNotForIdempotent},

		// hold.go
		{Name: "LockIsHeldWhileTheHandlerRuns", check: lockIsHeldWhileTheHandlerRuns},
		{Name: "HandlerFindsItsLease", check: handlerFindsItsLease},
		{Name: "RequestIsPutBack", check: requestIsPutBack},
		{Name: "ClientWhoLeavesEndsTheWork", check: clientWhoLeavesEndsTheWork},
		{Name: "CounterIsExact", check: counterIsExact},
		{Name: "StreamingSurvives", check: streamingSurvives},
		{Name: "HijackingSurvives", check: hijackingSurvives},
		{Name: "UploadedFilesAreRemoved", check: uploadedFilesAreRemoved},

		// exit.go
		{Name: "EveryExitReleases", check: everyExitReleases},
		{Name: "SecondClickIsRefused", check: secondClickIsRefused},
		{Name: "FailedWorkVoidsItsTicket", check: failedWorkVoidsItsTicket},
		{Name: "CoolDownInvitesNobody", check: coolDownInvitesNobody},

		// lost.go
		{Name: "LostLockEndsTheWork", check: lostLockEndsTheWork},
		{Name: "LostLockIsAnswered", check: lostLockIsAnswered},
		{Name: "ShadowNeitherWaitsNorRefuses", check: shadowNeitherWaitsNorRefuses},
		{Name: "AsyncReleaseIsNotAwaited", check: asyncReleaseIsNotAwaited},
		{Name: "LostLockTakesHeadersBack", check: lostLockTakesHeadersBack},
		{Name: "EmptyCopyIsNoAnswer", check: emptyCopyIsNoAnswer},
		{Name: "LostLockLeavesAWrittenResponse", check: lostLockLeavesAWrittenResponse},
		{Name: "AnswerPastTheWriterIsAnAnswer", check: answerPastTheWriterIsAnAnswer},
		{Name: "LostLockReplacesAHeldResponse", check: lostLockReplacesAHeldResponse},
		{Name: "LostLockLeavesAResponseOverTheLimit", check: lostLockLeavesAResponseOverTheLimit},

		// key.go
		{Name: "RequestWithoutAKeyIsRefused", check: requestWithoutAKeyIsRefused},
		{Name: "KeySeesWhatTheHandlerSees", check: keySeesWhatTheHandlerSees},
		{Name: "EverySourceOfAKeyWorks", check: everySourceOfAKeyWorks},
		{Name: "NativeKeyWorks", check: nativeKeyWorks},
		{Name: "NativeKeyIsEscaped", check: nativeKeyIsEscaped},
		{Name: "NativeKeyOfAnotherDoorIsRefused", check: nativeKeyOfAnotherDoorIsRefused},
		{Name: "SeveralKeysAreTakenTogether", check: severalKeysAreTakenTogether},
		{Name: "SkippedRequestTakesNoLock", check: skippedRequestTakesNoLock},

		// misuse.go
		{Name: "MistakeOfTheProgramIsTold", embedded: true, check: mistakeOfTheProgramIsTold},
		{Name: "NumberInAnotherSpellingIsTold", embedded: true, check: numberInAnotherSpellingIsTold},
		{Name: "WhatIsOptionalMayBeMissing", check: whatIsOptionalMayBeMissing},
		{Name: "ValueThatIsMissingIsTold", embedded: true, check: valueThatIsMissingIsTold},

		// places.go
		{Name: "BodyThatIsNotJSONIsRefused", check: bodyThatIsNotJSONIsRefused},
		{Name: "JSONMayHaveParameters", check: jsonMayHaveParameters},
		{Name: "NameInTwoPlacesIsRefused", check: nameInTwoPlacesIsRefused},
		{Name: "NameWithTwoValuesIsRefused", check: nameWithTwoValuesIsRefused},
		{Name: "LongFormIsRefused", check: longFormIsRefused},

		// body.go
		{Name: "BodyOverTheLimitIsRefused", check: bodyOverTheLimitIsRefused},
		{Name: "BodyReachesTheHandler", check: bodyReachesTheHandler},
		{Name: "NativeKeyMayReadTheBody", check: nativeKeyMayReadTheBody},
		{Name: "SlowBodyHoldsNoLock", check: slowBodyHoldsNoLock},
		{Name: "DrippingBodyHoldsNoLock", bubble: true, check: drippingBodyHoldsNoLock},
		{Name: "SpellingsOfAFieldAreOneLock", check: spellingsOfAFieldAreOneLock},
		{Name: "HugeBodiesCostLittle", check: hugeBodiesCostLittle},

		// upload.go
		{Name: "SilentBodyEndsTheHold", slow: true, waits: true, check: silentBodyEndsTheHold},
		{Name: "TrickleHoldsNoLock", waits: true, check: trickleHoldsNoLock},
		{Name: "EndlessBodyEndsTheHold", slow: true, waits: true, check: endlessBodyEndsTheHold},
		{Name: "EndedLockEndsTheBody", check: endedLockEndsTheBody},
		{Name: "UploadThatComesIsNotDisturbed", embedded: true, slow: true, waits: true, check: uploadThatComesIsNotDisturbed},
		{Name: "AnswerDoesNotWaitForTheBody", embedded: true, slow: true, waits: true, check: answerDoesNotWaitForTheBody},
		{Name: "AnswerInPlaceOfContinue", check: answerInPlaceOfContinue},
		{Name: "BodyCanBeReadAfterTheAnswerHasBegun", waits: true, check: bodyCanBeReadAfterTheAnswerHasBegun},
		{Name: "HijackedConnectionIsLeftAlone", waits: true, check: hijackedConnectionIsLeftAlone},
		{Name: "ClosedBodyIsNotRead", waits: true, check: closedBodyIsNotRead},
		{Name: "TrailersArrive", check: trailersArrive},
		{Name: "ReaderLeftBehindEnds", check: readerLeftBehindEnds},

		// response.go
		{Name: "ConnectionIsWithinReach", check: connectionIsWithinReach},
		{Name: "WrongStatusPanicsInTheHandler", check: wrongStatusPanicsInTheHandler},
		{Name: "ResponseWithoutABodyTakesNone", check: responseWithoutABodyTakesNone},
		{Name: "AnswerToHeadHasNoBody", check: answerToHeadHasNoBody},
		{Name: "BodyOverItsLengthIsRefused", check: bodyOverItsLengthIsRefused},

		// options.go
		{Name: "ErrorHandlerAnswers", check: errorHandlerAnswers},
		{Name: "SilentErrorHandlerIsNoSuccess", check: silentErrorHandlerIsNoSuccess},
		{Name: "ErrorHandlerHearsOfALostLock", check: errorHandlerHearsOfALostLock},
		{Name: "BufferedResponseIsTheSame", check: bufferedResponseIsTheSame},
		{Name: "SlowReaderOfABufferedResponseHoldsNoLock", check: slowReaderOfABufferedResponseHoldsNoLock},
		{Name: "SafeMethodsShareTheLock", check: safeMethodsShareTheLock},
		{Name: "MistakesPanicAtTheStart", check: mistakesPanicAtTheStart},

		// once.go
		{Name: "DoubleClickGetsOneAnswer", check: doubleClickGetsOneAnswer},
		{Name: "SecondClickWaitsForTheAnswer", check: secondClickWaitsForTheAnswer},
		{Name: "OtherRequestUnderTheKeyIsRefused", embedded: true, check: otherRequestUnderTheKeyIsRefused},
		{Name: "KeyIsOfOneRoute", embedded: true, check: keyIsOfOneRoute},
		{Name: "KeyIsOfOneUser", embedded: true, check: keyIsOfOneUser},
		{Name: "QuotedKeyIsTheSame", embedded: true, check: quotedKeyIsTheSame},
		{Name: "KeyIsNeeded", embedded: true, check: keyIsNeeded},
		{Name: "WorkInProgressIsRefused", check: workInProgressIsRefused},
		{Name: "SafeMethodsPass", embedded: true, check: safeMethodsPass},
		{Name: "SkippedRequestIsNotKept", embedded: true, check: skippedRequestIsNotKept},
		{Name: "LongBodyIsNotFingerprinted", embedded: true, check: longBodyIsNotFingerprinted},
		{Name: "ClientWhoLeavesGetsTheAnswerLater", check: clientWhoLeavesGetsTheAnswerLater},
		{Name: "WaiterWhoLeavesDoesNoWork", embedded: true, check: waiterWhoLeavesDoesNoWork},
		{Name: "HandlerThatIsToldToStopHasNotAnswered", embedded: true, check: handlerThatIsToldToStopHasNotAnswered},
		{Name: "HandlerSaysThatItDoesNotKnow", embedded: true, check: handlerSaysThatItDoesNotKnow},
		{Name: "DeadProcessIsTold", check: deadProcessIsTold},
		{Name: "RedisThatIsDownRefusesTheWork", embedded: true, check: redisThatIsDownRefusesTheWork},
		{Name: "ErrorHandlerAnswersForIdempotent", embedded: true, check: errorHandlerAnswersForIdempotent},
		{Name: "MistakesOfIdempotentPanicAtTheStart", embedded: true, check: mistakesOfIdempotentPanicAtTheStart},

		// uncertain.go
		{Name: "UncertainErrorsAreKept", embedded: true, check: uncertainErrorsAreKept},

		// kept.go
		{Name: "AnswersBelow500AreKept", embedded: true, check: answersBelow500AreKept},
		{Name: "KeepDecidesWhatIsKept", embedded: true, check: keepDecidesWhatIsKept},
		{Name: "ErrorOfTheHandlerIsAnswered", embedded: true, check: errorOfTheHandlerIsAnswered},
		{Name: "RefusalOfAnInnerLockIsNoAnswer", check: refusalOfAnInnerLockIsNoAnswer},
		{Name: "RefusalThatTheHandlerWritesIsNoAnswer", embedded: true, check: refusalThatTheHandlerWritesIsNoAnswer},
		{Name: "NotAnAnswerIsNotKept", embedded: true, check: notAnAnswerIsNotKept},
		{Name: "OnlyTheHandlersHeaderIsReplayed", embedded: true, check: onlyTheHandlersHeaderIsReplayed},
		{Name: "AnswerThatIsNotKeptIsTold", embedded: true, check: answerThatIsNotKeptIsTold},
		{Name: "AnswerUpToTheLimitIsKept", embedded: true, check: answerUpToTheLimitIsKept},
		{Name: "AnswerIsKeptBeforeItIsSent", check: answerIsKeptBeforeItIsSent},
		{Name: "ConnectionIsNotGivenAway", embedded: true, check: connectionIsNotGivenAway},
		{Name: "PanicIsNoAnswer", check: panicIsNoAnswer},
		{Name: "LostLockKeepsNoAnswer", check: lostLockKeepsNoAnswer},
		{Name: "ForgedAnswerIsNotSent", embedded: true, check: forgedAnswerIsNotSent},
		{Name: "CodecOfTheProgramWorks", embedded: true, check: codecOfTheProgramWorks},

		// inner.go
		{Name: "RefusalOfAnInnerLockLeavesNoDoubt", check: refusalOfAnInnerLockLeavesNoDoubt},
		{Name: "LostInnerLockIsUncertain", check: lostInnerLockIsUncertain},
		{Name: "InnerMaxHoldIsUncertain", embedded: true, check: innerMaxHoldIsUncertain},
		{Name: "NothingWasDoneCountsAfterTheEnd", check: nothingWasDoneCountsAfterTheEnd},
		{Name: "FirstClientIsToldOfUncertainWork", embedded: true, check: firstClientIsToldOfUncertainWork},
	}
}
