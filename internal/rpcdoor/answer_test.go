package rpcdoor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A spy is a codec that says what it was given.
type spy struct {
	answers *[]rpcdoor.Answer
	change  func(*rpcdoor.Answer) // of what is kept
}

func (spy) Name() string { return "spy" }

func (s spy) Encode(_ string, answer any) ([]byte, error) {
	a := answer.(rpcdoor.Answer)
	*s.answers = append(*s.answers, a)
	if s.change != nil {
		s.change(&a)
	}
	return json.Marshal(a)
}

func (s spy) Decode(_ string, data []byte, answer any) error { return json.Unmarshal(data, answer) }

// A onceDoor answers calls of the unary method without a framework.
type onceDoor struct {
	*rpcdoor.Once
	t *testing.T
}

func newOnce(t *testing.T, locks *lockmw.Locker, f lockmw.Flight, opts ...func(*rpcdoor.Options)) onceDoor {
	t.Helper()
	words := rpcdoor.Words{Package: "rpcdoor", Constructor: rpcdoor.Idempotent}
	f.Retain = time.Minute
	rules := rpcdoor.IdempotentRules{
		rpctest.ShopService + "*": {Key: keyfunc.MustParse("{body.customer.id}:{body.order_id}"), Flight: f},
		rpctest.RefundMethod:      {Key: keyfunc.Const("refund"), Flight: f},
	}
	return onceDoor{rpcdoor.NewOnce(rpcdoor.NewOptions(words, opts), locks, rules), t}
}

// order returns the message of a call.
func order(id string) *testpb.Order {
	return &testpb.Order{OrderId: id, Customer: &testpb.Customer{Id: "ann"}}
}

// answer answers a call of method, whose handler makes made.
func (o onceDoor) answer(method string, message any, made rpcdoor.Made) (ran bool, replayed *rpcdoor.Replay, err error) {
	o.t.Helper()
	call := rpcdoor.Call{Context: o.t.Context(), Method: method, Headers: noHeaders{}}
	rule := o.Find(o.t.Context(), method)
	if rule == nil {
		o.t.Fatalf("%s has no rule", method)
	}
	replayed, err = o.Answer(call, rule, message, func(context.Context) rpcdoor.Made {
		ran = true
		return made
	})
	return ran, replayed, err
}

func code(err error) string {
	refusal, _ := lockmw.RefusalOf(err)
	return refusal.Code
}

// Whoever can write to Redis can write answers: no header that breaks a response comes of that.
func TestKeptHeaderIsLookedAtAgain(t *testing.T) {
	locks, _ := testenv.Locker(t)
	o := newOnce(t, locks, lockmw.Flight{Codec: spy{new([]rpcdoor.Answer), func(a *rpcdoor.Answer) {
		for _, name := range []string{"x-fine", "X-Upper", "", ":status", "grpc-status", "content-type", "set-cookie", "x y", "x\ny", "idempotent-replayed"} {
			a.Header = append(a.Header, rpcdoor.Field{Name: name, Value: []byte("v")})
		}
		for _, value := range []string{"a\nb", "a\rb", "ä", "\x00", "fine"} {
			a.Trailer = append(a.Trailer, rpcdoor.Field{Name: "x-value", Value: []byte(value)}, rpcdoor.Field{Name: "x-bin", Value: []byte(value)})
		}
	}}})
	made := rpcdoor.Made{Reply: new(testpb.Receipt)}
	if ran, _, err := o.answer(rpctest.PayMethod, order("1"), made); !ran || err != nil {
		t.Fatalf("ran = %v, %v", ran, err)
	}
	ran, replayed, err := o.answer(rpctest.PayMethod, order("1"), made)
	if ran || err != nil {
		t.Fatalf("ran = %v, %v", ran, err)
	}
	if want := map[string][]string{"x-fine": {"v"}, "idempotent-replayed": {"true"}}; !reflect.DeepEqual(replayed.Header, want) {
		t.Errorf("header = %q, want %q", replayed.Header, want)
	}
	if want := map[string][]string{"x-value": {"fine"}, "x-bin": {"a\nb", "a\rb", "ä", "\x00", "fine"}}; !reflect.DeepEqual(replayed.Trailer, want) {
		t.Errorf("trailer = %q, want %q", replayed.Trailer, want)
	}
}

// A reply that cannot be given again was made all the same: its call has it, and nobody does the work again.
func TestReplyOfAnotherTypeIsNotKept(t *testing.T) {
	for name, reply := range map[string]any{"another message": wrapperspb.String("x"), "no message": 42, "nothing": nil} {
		var log bytes.Buffer
		locks := testenv.Open(t, redisClient(t), lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		o := newOnce(t, locks, lockmw.Flight{})
		if ran, replayed, err := o.answer(rpctest.PayMethod, order("1"), rpcdoor.Made{Reply: reply}); !ran || replayed != nil || err != nil {
			t.Errorf("%s: ran = %v, %v, %v", name, ran, replayed, err)
		}
		if ran, _, err := o.answer(rpctest.PayMethod, order("1"), rpcdoor.Made{Reply: reply}); ran || code(err) != lockmw.CodeIdempotencyAnswerNotKept {
			t.Errorf("%s: ran = %v, %v", name, ran, err)
		}
		if err := locks.Close(t.Context()); err != nil { // it has written its log then
			t.Error(err)
		}
		if want := "an answer of " + rpctest.PayMethod + " cannot be given again: a reply is a"; strings.Count(log.String(), want) != 1 {
			t.Errorf("%s: logged %s", name, log.String())
		}
	}
}

func redisClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	_, client := testenv.Locker(t)
	return client
}

// An error whose code is OK would be a success without a reply.
func TestErrorWithTheCodeOKIsNoAnswer(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for _, opts := range [][]func(*rpcdoor.Options){nil, {rpcdoor.WithKeep(func(context.Context, string, error) bool { return true })}} {
		o := newOnce(t, locks, lockmw.Flight{}, opts...)
		made := rpcdoor.Made{Err: errors.New("fine"), As: new(status.Status)}
		_, _, _ = o.answer(rpctest.PayMethod, order("1"), made)
		if _, replayed, _ := o.answer(rpctest.PayMethod, order("1"), made); replayed != nil {
			t.Errorf("it is given again: %v", replayed)
		}
	}
}

// What this program can never answer again is refused before the work.
func TestCallThatCannotBeAnsweredAgainDoesNotRun(t *testing.T) {
	locks, _ := testenv.Locker(t)
	fingerprint := rpcdoor.WithFingerprint(func(context.Context, string, any) ([]byte, error) { return nil, nil })
	o := newOnce(t, locks, lockmw.Flight{}, fingerprint)
	for name, call := range map[string]struct {
		method  string
		message any
	}{
		"a method that is not in the descriptor": {rpctest.ShopService + "Other", order("1")},
		"a message of another codec":             {rpctest.RefundMethod, 42},
	} {
		if ran, _, err := o.answer(call.method, call.message, rpcdoor.Made{}); ran || code(err) != lockmw.CodeMisuse {
			t.Errorf("%s: ran = %v, %v", name, ran, err)
		}
	}
}

// A wordy codec can still say that there was an answer, however little is kept.
func TestFactIsKeptWhateverTheBound(t *testing.T) {
	locks, _ := testenv.Locker(t)
	var kept []rpcdoor.Answer
	o := newOnce(t, locks, lockmw.Flight{MaxAnswer: 1, Codec: spy{answers: &kept}})
	if ran, _, err := o.answer(rpctest.PayMethod, order("1"), rpcdoor.Made{Reply: new(testpb.Receipt)}); !ran || err != nil {
		t.Errorf("ran = %v, %v", ran, err)
	}
	if len(kept) != 2 || !kept[1].NotKept {
		t.Errorf("kept %+v, want the fact at last", kept)
	}
	if ran, _, err := o.answer(rpctest.PayMethod, order("1"), rpcdoor.Made{}); ran || code(err) != lockmw.CodeIdempotencyAnswerNotKept {
		t.Errorf("ran = %v, %v", ran, err)
	}
}

// The fingerprint is of the message with what this program does not know of it.
func TestUnknownFieldsAreOfTheRequest(t *testing.T) {
	locks, _ := testenv.Locker(t)
	o := newOnce(t, locks, lockmw.Flight{})
	newer := order("1")
	newer.ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 0x01}) // the field 2047 is 1
	if ran, _, err := o.answer(rpctest.PayMethod, newer, rpcdoor.Made{Reply: new(testpb.Receipt)}); !ran || err != nil {
		t.Fatalf("ran = %v, %v", ran, err)
	}
	if ran, _, err := o.answer(rpctest.PayMethod, order("1"), rpcdoor.Made{}); ran || code(err) != lockmw.CodeIdempotencyKeyReused {
		t.Errorf("ran = %v, %v", ran, err)
	}
	if ran, replayed, err := o.answer(rpctest.PayMethod, newer, rpcdoor.Made{}); ran || replayed == nil || err != nil {
		t.Errorf("ran = %v, %v, %v", ran, replayed, err)
	}
}
