package payclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// A bank is the service. It counts payments.
type bank struct {
	flight   lockmw.Flight                            // zero: 24 hours, and Uncertain
	pay      func(w http.ResponseWriter, payment int) // makes a payment; nil: answers with a receipt
	breaks   bool                                     // the connection breaks once, after the payment
	half     string                                   // what the client has of the answer then
	mu       sync.Mutex
	payments int
	statuses []int // of the answers that were sent
}

// start returns the address of the service.
func (b *bank) start(t *testing.T) (service string) {
	t.Helper()
	if b.flight.Retain == 0 {
		b.flight = lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain}
	}
	idempotent := httplock.Idempotent(locktest.New(t), keyfunc.MustParse("{header.Idempotency-Key|idempotency}"), b.flight,
		httplock.WithKeysOfEverybody())
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", idempotent(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		b.payments++
		payment := b.payments
		b.mu.Unlock()
		if b.pay != nil {
			b.pay(w, payment)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "receipt ", payment)
	})))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := httptest.NewRecorder()
		mux.ServeHTTP(held, r)
		b.mu.Lock()
		breaks := b.breaks
		if b.breaks = false; !breaks {
			b.statuses = append(b.statuses, held.Code)
		}
		b.mu.Unlock()
		if breaks {
			if b.half != "" {
				w.WriteHeader(held.Code)
				fmt.Fprint(w, b.half)
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler) // closes the connection
		}
		maps.Copy(w.Header(), held.Header())
		w.WriteHeader(held.Code)
		_, _ = w.Write(held.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestABrokenConnectionPaysOnce(t *testing.T) {
	for _, half := range []string{"", "rece"} {
		b := &bank{breaks: true, half: half}
		receipt, err := Pay(t.Context(), http.DefaultClient, b.start(t), NewOrder("42", 7))
		if err != nil || receipt != "receipt 1" || b.payments != 1 || len(b.statuses) != 1 {
			t.Errorf("after %q: %q, %v, after %d payments and the answers %v", half, receipt, err, b.payments, b.statuses)
		}
	}
}

// A client whose process ends in the middle reads its order when it is started again.
func TestARestartedClientPaysOnce(t *testing.T) {
	b := &bank{breaks: true}
	service := b.start(t)
	stored, err := json.Marshal(NewOrder("42", 7)) // before the first try
	if err != nil {
		t.Fatal(err)
	}
	run := func(dies bool) (string, error) {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		var order Order
		if err := json.Unmarshal(stored, &order); err != nil {
			t.Fatal(err)
		}
		return Pay(ctx, &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if dies {
				defer kill()
			}
			return http.DefaultTransport.RoundTrip(r)
		})}, service, order)
	}
	if receipt, err := run(true); !errors.Is(err, context.Canceled) {
		t.Fatalf("%q, %v", receipt, err)
	}
	receipt, err := run(false)
	if err != nil || receipt != "receipt 1" || b.payments != 1 {
		t.Errorf("%q, %v, after %d payments", receipt, err, b.payments)
	}
}

// Two workers of the client have the same order. The second one is told to come back, and has the receipt then.
func TestTheFirstTryIsStillAtWork(t *testing.T) {
	atWork, goOn := make(chan struct{}), make(chan struct{})
	b := &bank{
		flight: lockmw.Flight{Retain: 24 * time.Hour},
		pay: func(w http.ResponseWriter, payment int) {
			close(atWork)
			<-goOn
			fmt.Fprint(w, "receipt ", payment)
		},
	}
	service, order := b.start(t), NewOrder("42", 7)
	receipts := make(chan string, 2)
	pay := func(client *http.Client) {
		receipt, err := Pay(t.Context(), client, service, order)
		if err != nil {
			t.Error(err)
		}
		receipts <- receipt
	}
	go pay(http.DefaultClient)
	<-atWork
	refused := sync.OnceFunc(func() { close(goOn) })
	pay(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusConflict {
			refused()
		}
		return answer, err
	})})
	refused() // or the first one would never end
	if first, second := <-receipts, <-receipts; first != "receipt 1" || second != first || b.payments != 1 || b.statuses[0] != http.StatusConflict {
		t.Errorf("%q and %q, after %d payments and the answers %v", first, second, b.payments, b.statuses)
	}
}

func TestWhenAskingAgainTellsNothingNew(t *testing.T) {
	small := lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, MaxAnswer: 100}
	for name, c := range map[string]struct {
		bank *bank
		want error
	}{
		"the process dies": {&bank{pay: func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }}, ErrUncertain},
		"it fails in the middle": {&bank{pay: func(w http.ResponseWriter, _ int) {
			w.WriteHeader(http.StatusInternalServerError)
		}}, ErrUncertain},
		"a long receipt": {&bank{breaks: true, flight: small, pay: func(w http.ResponseWriter, _ int) {
			fmt.Fprint(w, strings.Repeat("a", 100))
		}}, ErrAnswerNotKept},
		"no money": {&bank{pay: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusPaymentRequired) }}, ErrRefused},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a client that does not stop
		receipt, err := Pay(ctx, http.DefaultClient, c.bank.start(t), NewOrder("42", 7))
		cancel()
		if !errors.Is(err, c.want) || c.bank.payments != 1 {
			t.Errorf("%s: %q, %v, after %d payments", name, receipt, err, c.bank.payments)
		}
	}
}

func TestAChangedOrderIsNotPaid(t *testing.T) {
	b := &bank{}
	service, order := b.start(t), NewOrder("42", 7)
	for amount, want := range []error{nil, ErrKeyReused} {
		order.Amount = amount
		if _, err := Pay(t.Context(), http.DefaultClient, service, order); !errors.Is(err, want) {
			t.Errorf("an amount of %d: %v, want %v", amount, err, want)
		}
	}
	if b.payments != 1 {
		t.Errorf("%d payments", b.payments)
	}
}

// A transport takes the place of the network.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is an answer of a service. Status 0 is none, until the request's time is up.
func answer(r *http.Request, status int, header ...string) (*http.Response, error) {
	if status == 0 || r.Context().Err() != nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	fmt.Fprint(w, "receipt")
	return w.Result(), nil
}

// Each try is the same, and comes when the service wants it to come, or later than the last one.
func TestTriesAreTheSameAndHavePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []struct {
			status int
			header []string
			least  time.Duration // until the next try; half of that may come on top
		}{
			{0, nil, 100 * time.Millisecond},
			{503, nil, 200 * time.Millisecond},
			{409, []string{"Retry-After", "7"}, 7 * time.Second},
			{429, nil, 800 * time.Millisecond},
			{408, nil, 1600 * time.Millisecond},
			{425, nil, 3200 * time.Millisecond},
			{201, nil, 0},
		}
		order, tries, last := NewOrder("a/b", 7), 0, time.Now()
		receipt, err := Pay(t.Context(), &http.Client{Timeout: 30 * time.Second, Transport: transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Idempotency-Key") != order.Key || string(body) != `{"amount":7}` || r.URL.Path != "/orders/a/b/pay" || r.URL.RawPath == "" {
				t.Errorf("try %d is %s, %v, %s", tries, r.URL, r.Header, body)
			}
			if tries > 0 {
				if least, pause := script[tries-1].least, time.Since(last); pause < least || pause >= least*3/2 {
					t.Errorf("try %d comes after %v, want %v and up to half of that on top", tries, pause, least)
				}
			}
			now := script[tries]
			tries++
			w, err := answer(r, now.status, now.header...)
			last = time.Now()
			return w, err
		})}, "http://bank", order)
		if err != nil || receipt != "receipt" || tries != len(script) {
			t.Errorf("%q, %v, after %d tries", receipt, err, tries)
		}
	})
}

// A try whose token has run out does not say that an earlier one has not paid.
func TestWhatIsAboutOneTryIsNoAnswer(t *testing.T) {
	for _, status := range []int{401, 403, 409} {
		tries := 0
		receipt, err := Pay(t.Context(), &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			tries++
			return answer(r, status)
		})}, "http://bank", NewOrder("42", 7))
		if !errors.Is(err, errNoAnswer) || tries != 1 {
			t.Errorf("%d: %q, %v, after %d tries", status, receipt, err, tries)
		}
	}
}

func TestClientsDoNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := make(map[time.Duration]bool)
		for range 10 {
			began, status := time.Now(), http.StatusServiceUnavailable
			_, _ = Pay(t.Context(), &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				defer func() { status = http.StatusCreated }()
				return answer(r, status, "Retry-After", "1")
			})}, "http://bank", NewOrder("42", 7))
			pauses[time.Since(began)] = true
		}
		if len(pauses) < 2 {
			t.Errorf("all pauses are %v", pauses)
		}
	})
}

// Whatever the client still does not know after a day, it does not find out by paying.
func TestAnOldOrderIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := time.Duration(0)
		order := NewOrder("42", 7)
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if r.Context().Err() == nil {
				last = time.Since(order.Made)
			}
			return answer(r, http.StatusServiceUnavailable)
		})}
		for range 2 { // the second call comes too late
			if _, err := Pay(t.Context(), client, "http://bank", order); !errors.Is(err, ErrTooOld) {
				t.Error(err)
			}
		}
		if last < maxAge-2*longestPause || last >= maxAge {
			t.Errorf("the last try was %v after the order was made", last)
		}
	})
}
