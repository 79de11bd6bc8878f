package echotest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Run checks what only Echo has, and both of its versions. What all doors do is in
// internal/test/doortest.
func Run[C Context](t *testing.T, v Version[C]) {
	for _, c := range v.cases() {
		t.Run(c.name, c.check)
	}
}

// A test is one behaviour.
type test struct {
	name  string // a sentence
	check func(t *testing.T)
}

func (v Version[C]) cases() []test {
	return []test{
		// errors.go
		{"CentralErrorHandlerIsAskedOnce", v.centralErrorHandlerIsAskedOnce},
		{"CentralErrorHandlerMayAnswerInItsOwnWay", v.centralErrorHandlerMayAnswerInItsOwnWay},
		{"ErrorOfAnErrorHandlerIsEchos", v.errorOfAnErrorHandlerIsEchos},
		{"ErrorThatIsHandedOnIsTheRefusal", v.errorThatIsHandedOnIsTheRefusal},
		{"RefusedHeadHasNoBody", v.refusedHeadHasNoBody},
		{"HandlersErrorAndTheLossAreBothSeen", v.handlersErrorAndTheLossAreBothSeen},
		{"RecoverAnswersInPlaceOfAHeldResponse", v.recoverAnswersInPlaceOfAHeldResponse},
		{"ErrorAfterAHeldResponseChangesNothing", v.errorAfterAHeldResponseChangesNothing},
		{"ErrorOfAHeldHandlerIsAnswered", v.errorOfAHeldHandlerIsAnswered},
		{"AnswerThatIsTakenBackHasNotBegun", v.answerThatIsTakenBackHasNotBegun},
		{"AnswerPastEchosCountIsOne", v.answerPastEchosCountIsOne},

		// idempotent.go
		{"ErrorOfAnIdempotentHandlerIsKept", v.errorOfAnIdempotentHandlerIsKept},
		{"AnswerOfAnIdempotentHandlerPassesEchosWriter", v.answerOfAnIdempotentHandlerPassesEchosWriter},
		{"UnknownPathOfAnIdempotentIsEchos", v.unknownPathOfAnIdempotentIsEchos},
		{"ErrorThatTellsOfALossIsUncertain", v.errorThatTellsOfALossIsUncertain},
		{"LockInFrontOfIdempotentIsTold", v.lockInFrontOfIdempotentIsTold},

		// params.go
		{"ParameterBeyondItsSegmentIsRefused", v.parameterBeyondItsSegmentIsRefused},
		{"ParameterIsOneLockToEveryHandler", v.parameterIsOneLockToEveryHandler},
		{"ParameterInPlaceOfAMissingQueryIsRefused", v.parameterInPlaceOfAMissingQueryIsRefused},
		{"ParametersOfOneNameAreRefusedIfTheyDiffer", v.parametersOfOneNameAreRefusedIfTheyDiffer},
		{"ParameterThatTheKeyDoesNotNeedIsNotRefused", v.parameterThatTheKeyDoesNotNeedIsNotRefused},
		{"BraceInARouteIsABrace", v.braceInARouteIsABrace},
		{"BodyThatOverwritesTheQueryIsRefused", v.bodyThatOverwritesTheQueryIsRefused},

		// misuse.go
		{"NoRouteIsKnownInPre", v.noRouteIsKnownInPre},
		{"PlaceOfTheMiddlewareIsChecked", v.placeOfTheMiddlewareIsChecked},
	}
}

// send has handler serve a request without a body.
func send(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, path, nil))
	return w
}

// lock returns the middleware on the lock k.
func (v Version[C]) lock(locks *lockmw.Locker, opts ...echodoor.Option[C]) Middleware[C] {
	return v.Lock(locks, keyfunc.Const("k"), lockmw.Policy{}, opts...)
}

// occupy takes the lock k, as another program would.
func occupy(client *redis.Client) { client.Set(context.Background(), "lock:{k}", "other", 0) }

// lose takes the lock k away.
func lose(client *redis.Client) { client.Del(context.Background(), "lock:{k}") }

// unreachable returns a handler that must not run.
func unreachable[C Context](t *testing.T) func(C) error {
	return func(C) error {
		t.Error("the handler runs")
		return nil
	}
}
