// Package payclient is the client's side of a payment: it sends an order with one idempotency key until it knows what has become
// of it, so that the order is paid once.
package payclient

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An Order is what is to be paid. Store it as a whole before the first call of Pay: a client that is started again reads it, and goes
// on with the same Key. Nothing of it may change afterwards.
type Order struct {
	ID     string
	Amount int
	Key    string    // the idempotency key
	Made   time.Time // by which Pay knows when the service may have forgotten the key
}

// NewOrder returns an order with a key of its own.
func NewOrder(id string, amount int) Order {
	return Order{ID: id, Amount: amount, Key: crand.Text(), Made: time.Now()}
}

// The errors after which another try with the order's key tells nothing new. Any other error of Pay says that it is not known yet whether
// the order was paid: call Pay again, with the same order.
var (
	// ErrRefused: the service does not accept the payment, as when the card is declined. Whoever tries another card needs
	// a new order, with another key: to this key the service gives the same answer again.
	ErrRefused = errors.New("payclient: the payment is refused")

	// ErrKeyReused: the service knows the key from another request, and has not paid this one. That is a mistake of
	// the client: an order, or what it sends of one, has changed since the first try.
	ErrKeyReused = errors.New("payclient: the key was used for another request")

	// ErrUncertain: the payment was begun, and the service does not know whether it was made. Somebody has to look it up there. A new key
	// may pay a second time.
	ErrUncertain = errors.New("payclient: it is not known whether the order is paid")

	// ErrAnswerNotKept: the payment was made, and the service cannot give the receipt again; or somebody there has said that it is
	// not to be made. Look it up.
	ErrAnswerNotKept = errors.New("payclient: the receipt cannot be given again")

	// ErrTooOld: the service may have forgotten the key, so another try may pay a second time. Look up whether the order is paid.
	ErrTooOld = errors.New("payclient: the order is too old to be sent again")
)

const (
	maxAge       = 23 * time.Hour // of an order that is sent: the service keeps its answer for 24 hours
	firstPause   = 100 * time.Millisecond
	longestPause = time.Minute
)

// What a try says that does not tell what has become of the payment: an earlier one may have paid.
var (
	errUnknown  = errors.New("payclient: it is not known yet whether the order is paid")      // the next try may tell
	errNoAnswer = errors.New("payclient: the service does not say whether the order is paid") // nor does it soon
)

// Pay pays an order and returns its receipt. It tries again, with pauses and with the same key, until it knows, or until ctx ends. The
// client has a Timeout for one try, which is longer than the service's Wait.
func Pay(ctx context.Context, client *http.Client, service string, o Order) (string, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, o.Made.Add(maxAge), ErrTooOld)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		receipt, retryAfter, err := try(ctx, client, service, o)
		if !errors.Is(err, errUnknown) {
			return receipt, err
		}
		wait := max(pause, retryAfter)
		select {
		case <-time.After(wait + rand.N(wait/2)): // clients that were refused together do not come back together
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// try sends the order once. Each try sends the same. retryAfter is what the service asks for; zero: it does not say.
func try(ctx context.Context, client *http.Client, service string, o Order) (receipt string, retryAfter time.Duration, err error) {
	body, err := json.Marshal(map[string]int{"amount": o.Amount})
	if err != nil {
		return "", 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, service+"/orders/"+url.PathEscape(o.ID)+"/pay", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", o.Key)
	answer, err := client.Do(r)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errUnknown, err) // it may be paid: the time was up, or the connection broke
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errUnknown, err) // it may be paid, and that is half a receipt
	}
	if answer.StatusCode/100 == 2 {
		return string(text), 0, nil
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // zero: it has none
	retryAfter = time.Duration(seconds) * time.Second
	return "", retryAfter, fmt.Errorf("%w: the service answers %s: %.200q", meaning(answer, text), answer.Status, text)
}

// meaning returns what an answer says that is no receipt.
func meaning(answer *http.Response, text []byte) error {
	var problem struct{ Code string }
	_ = json.Unmarshal(text, &problem) // what a proxy answers, for one, has no code
	switch problem.Code {
	case "IDEMPOTENCY_KEY_REUSED":
		return ErrKeyReused
	case "IDEMPOTENCY_UNCERTAIN":
		return ErrUncertain
	case "IDEMPOTENCY_ANSWER_NOT_KEPT":
		return ErrAnswerNotKept
	}
	switch status := answer.StatusCode; {
	case status >= http.StatusInternalServerError && answer.Header.Get("Idempotent-Replayed") != "":
		return ErrUncertain // it failed in the middle, and will answer so each time
	case status >= http.StatusInternalServerError, answer.Header.Get("Retry-After") != "", // as with IDEMPOTENCY_IN_PROGRESS
		status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return errUnknown
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusConflict:
		return errNoAnswer // the service keeps none of these: they are about this try
	}
	return ErrRefused
}
