package grpclock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/doortest"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/testenv"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A doorCase is one behaviour. One that the HTTP doors have, too, has the name
// that it has in doortest.
type doorCase struct {
	name string // a sentence
	// embedded tells that it needs a Redis that can be broken.
	embedded bool
	takes    time.Duration // how long a sound door may need, if that is long
	check    func(e *env)
}

var cases = []doorCase{
	// refuse_test.go
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

	// hold_test.go
	{name: "LockIsHeldWhileTheHandlerRuns", check: lockIsHeldWhileTheHandlerRuns},
	{name: "HandlerFindsItsLease", check: handlerFindsItsLease},
	{name: "EveryExitReleases", check: everyExitReleases},
	{name: "EveryExitOfAStreamReleases", check: everyExitOfAStreamReleases},
	{name: "ClientWhoLeavesEndsTheWork", check: clientWhoLeavesEndsTheWork},
	{name: "CounterIsExact", check: counterIsExact},

	// lost_test.go
	{name: "LostLockEndsTheWork", check: lostLockEndsTheWork},
	{name: "LostLockIsAnswered", check: lostLockIsAnswered},
	{name: "LostLockTakesHeadersBack", check: lostLockTakesHeadersBack},
	{name: "SentHeaderIsSent", check: sentHeaderIsSent},
	{name: "LostLockKeepsTheHandlersError", check: lostLockKeepsTheHandlersError},
	{name: "LostLockEndsAStream", check: lostLockEndsAStream},
	{name: "LongHoldEndsAStream", check: longHoldEndsAStream},
	{name: "LostLockHoldsMessagesBack", check: lostLockHoldsMessagesBack},

	// key_test.go
	{name: "RequestWithoutAKeyIsRefused", check: requestWithoutAKeyIsRefused},
	{name: "KeySeesWhatTheHandlerSees", check: keySeesWhatTheHandlerSees},
	{name: "EverySourceOfAKeyWorks", check: everySourceOfAKeyWorks},
	{name: "SeveralKeysAreTakenTogether", check: severalKeysAreTakenTogether},
	{name: "SkippedRequestTakesNoLock", check: skippedRequestTakesNoLock},
	{name: "BodyReachesTheHandler", check: bodyReachesTheHandler},
	{name: "SpellingsOfAFieldAreOneLock", check: spellingsOfAFieldAreOneLock},

	// misuse_test.go
	{name: "NativeKeyWorks", check: nativeKeyWorks},
	{name: "NativeKeyIsEscaped", check: nativeKeyIsEscaped},
	{name: "NativeKeyOfAnotherDoorIsRefused", check: nativeKeyOfAnotherDoorIsRefused},
	{name: "MistakeOfTheProgramIsTold", embedded: true, check: mistakeOfTheProgramIsTold},
	{name: "WhatIsOptionalMayBeMissing", check: whatIsOptionalMayBeMissing},
	{name: "ValueThatIsMissingIsTold", embedded: true, check: valueThatIsMissingIsTold},

	// options_test.go
	{name: "ErrorHandlerAnswers", check: errorHandlerAnswers},
	{name: "SilentErrorHandlerIsNoSuccess", check: silentErrorHandlerIsNoSuccess},
	{name: "ErrorThatIsHandedOnShowsNothing", check: errorThatIsHandedOnShowsNothing},
	{name: "ErrorHandlerHearsOfALostLock", check: errorHandlerHearsOfALostLock},
	{name: "MistakesPanicAtTheStart", check: mistakesPanicAtTheStart},

	// stream_test.go
	{name: "StreamingSurvives", check: streamingSurvives},
	{name: "SlowBodyHoldsNoLock", check: slowBodyHoldsNoLock},
	{name: "StreamIsLockedFromStartToEnd", check: streamIsLockedFromStartToEnd},
	{name: "BusyStreamIsRefused", check: busyStreamIsRefused},
	{name: "RefusalOfAStreamIsFinal", check: refusalOfAStreamIsFinal},
	{name: "StreamWithoutAMessageIsRefused", check: streamWithoutAMessageIsRefused},
	{name: "StreamHasOneContext", check: streamHasOneContext},
	{name: "FunctionMayAskForTheMessage", check: functionMayAskForTheMessage},
	{name: "SkippedStreamTakesNoLock", check: skippedStreamTakesNoLock},

	// latestream_test.go
	{name: "LeaseThatComesTooLateIsReleased", check: leaseThatComesTooLateIsReleased},
}

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
	"LongFormIsRefused":                        "there are no forms",
	"DrippingBodyHoldsNoLock":                  "the message has arrived whole before an interceptor is called",
	"HugeBodiesCostLittle":                     "grpc.MaxRecvMsgSize is the limit, and comes first",
	"SafeMethodsShareTheLock":                  "gRPC does not tell safe methods: a rule's Policy has the mode",
}

func TestDoor(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.embedded {
				c.check(newEnv(t, sound, redistest.Embedded(t)))
				return
			}
			redistest.Each(t, func(t *testing.T, s redistest.Backend) {
				if _, embedded := s.(*redistest.Mini); !embedded {
					testenv.Slow(t)
				}
				c.check(newEnv(t, sound, s))
			})
		})
	}
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
