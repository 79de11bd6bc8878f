package rpctest

import (
	"slices"
	"testing"

	"github.com/lockmw/kit/internal/test/doortest"
)

// meaningless are the cases of doortest that say nothing about gRPC.
var meaningless = map[string]string{
	"RequestIsPutBack":                         "no door changes anything that outer interceptors have: contexts are handed down",
	"HijackingSurvives":                        "a gRPC handler has no connection",
	"UploadedFilesAreRemoved":                  "there are no forms",
	"LostLockLeavesAWrittenResponse":           "the status comes last, whatever was sent: LostLockIsAnswered, LostLockEndsAStream",
	"ConnectionIsWithinReach":                  "a gRPC handler has no connection",
	"WrongStatusPanicsInTheHandler":            "a gRPC status is a value of the handler's error",
	"ResponseWithoutABodyTakesNone":            "a reply is a message or none",
	"AnswerToHeadHasNoBody":                    "gRPC has no HEAD",
	"BodyOverItsLengthIsRefused":               "a message has no length of its own",
	"EmptyCopyIsNoAnswer":                      "a gRPC handler has no writer",
	"AnswerPastTheWriterIsAnAnswer":            "a gRPC handler has no writer",
	"SilentBodyEndsTheHold":                    "messages of a client stream are what it is for; MaxHold bounds it",
	"TrickleHoldsNoLock":                       "messages of a client stream are what it is for; MaxHold bounds it",
	"EndedLockEndsTheBody":                     "a stream has messages: LostLockEndsAStream, LongHoldEndsAStream",
	"UploadThatComesIsNotDisturbed":            "a stream has messages: StreamingSurvives",
	"AnswerDoesNotWaitForTheBody":              "gRPC sends while it receives",
	"AnswerInPlaceOfContinue":                  "gRPC has no 100 Continue",
	"BodyCanBeReadAfterTheAnswerHasBegun":      "gRPC sends while it receives",
	"HijackedConnectionIsLeftAlone":            "a gRPC handler has no connection",
	"ClosedBodyIsNotRead":                      "a message cannot be closed",
	"TrailersArrive":                           "gRPC clients send none",
	"ReaderLeftBehindEnds":                     "grpc ends a stream's RecvMsg when its handler returns",
	"LostLockReplacesAHeldResponse":            "a unary reply is always held back: LostLockIsAnswered",
	"LostLockLeavesAResponseOverTheLimit":      "replies are not buffered by the door",
	"BufferedResponseIsTheSame":                "replies are not buffered by the door",
	"SlowReaderOfABufferedResponseHoldsNoLock": "grpc sends a unary reply after the interceptors are done",
	"BodyOverTheLimitIsRefused":                "grpc.MaxRecvMsgSize is the limit, and comes first",
	"BodyThatIsNotJSONIsRefused":               "the message has one form, which grpc has read",
	"JSONMayHaveParameters":                    "there is no JSON",
	"NameInTwoPlacesIsRefused":                 "a field is in the message alone",
	"EndlessBodyEndsTheHold":                   "messages of a client stream are what it is for; MaxHold bounds it",
	"LongFormIsRefused":                        "there are no forms",
	"DrippingBodyHoldsNoLock":                  "the message has arrived whole before an interceptor is called",
	"HugeBodiesCostLittle":                     "grpc.MaxRecvMsgSize is the limit, and comes first",
	"SafeMethodsShareTheLock":                  "gRPC does not tell safe methods: a rule's Policy has the mode",
	"NativeKeyMayReadTheBody":                  "a native key function is given the message, and reads no body",

	// Those of Idempotent have names of their own here.
	"DoubleClickGetsOneAnswer":          "AnswerIsGivenAgain, AnswerOfAnotherProcessIsGiven",
	"SecondClickWaitsForTheAnswer":      "CallsAtTheSameTimeAreAnsweredOnce",
	"KeyIsOfOneRoute":                   "MethodsAreApart",
	"KeyIsOfOneUser":                    "UsersAreApart",
	"QuotedKeyIsTheSame":                "a filter of keyfunc: metadata is a text as any header is",
	"KeyIsNeeded":                       "CallWithoutAKeyIsRefused, CallWithoutAKeyMayRun",
	"WorkInProgressIsRefused":           "CallInProgressIsTold",
	"SafeMethodsPass":                   "gRPC does not tell safe methods: no rule, no key",
	"SkippedRequestIsNotKept":           "SkippedCallRuns",
	"LongBodyIsNotFingerprinted":        "grpc.MaxRecvMsgSize is the limit, and comes first",
	"ClientWhoLeavesGetsTheAnswerLater": "ClientWhoLeavesFindsTheAnswer",
	"WaiterWhoLeavesDoesNoWork":         "of lockmw.Do: a door hands on the call's context",
	"RedisThatIsDownRefusesTheWork":     "CallWithoutRedisIsRefused",
	"ErrorHandlerAnswersForIdempotent":  "ErrorHandlerHearsOfARequest",

	"HandlerThatIsToldToStopHasNotAnswered": "HandlerThatIsToldToStopIsUncertain; a gRPC handler always answers",
	"AnswersBelow500AreKept":                "ErrorsAreAnswers, UncertainErrorsAreKept",
	"KeepDecidesWhatIsKept":                 "KeepDecides",
	"ErrorOfTheHandlerIsAnswered":           "ErrorsAreAnswers",
	"RefusalOfAnInnerLockIsNoAnswer":        "RefusalOfALockIsNoAnswer",
	"RefusalThatTheHandlerWritesIsNoAnswer": "RefusalOfALockIsNoAnswer: a gRPC handler returns the error",
	"OnlyTheHandlersHeaderIsReplayed":       "AnswerIsGivenAgain, WhatIsOutsideIsNoAnswer",
	"AnswerThatIsNotKeptIsTold":             "LargeAnswerIsNotKept",
	"AnswerUpToTheLimitIsKept":              "LargeAnswerIsNotKept, BoundMayBeRaised",
	"AnswerIsKeptBeforeItIsSent":            "grpc sends a unary reply after the interceptors are done",
	"ConnectionIsNotGivenAway":              "a gRPC handler has no connection",
	"LostLockKeepsNoAnswer":                 "LostAnswerIsTold",
	"ForgedAnswerIsNotSent":                 "AnswerThatCannotBeReadIsNoLeave",
	"CodecOfTheProgramWorks":                "CodecEncodesAnswers",

	"FirstClientIsToldOfUncertainWork": "a gRPC handler always answers, and its own client gets that",
}

func TestListIsTheSameAsForEveryDoor(t *testing.T) {
	var common []string
	for _, c := range doortest.Cases() {
		common = append(common, c.Name)
		here := slices.ContainsFunc(cases, func(own doorCase) bool { return own.name == c.Name })
		if reason := meaningless[c.Name]; here == (reason != "") {
			t.Errorf("%s: tested here: %v; reason not to: %q", c.Name, here, reason)
		}
	}
	for name := range meaningless {
		if !slices.Contains(common, name) {
			t.Errorf("there is no common case %s", name)
		}
	}
}
