package connectlock_test

import (
	"net/http"
	"testing"
)

// Readers of JSON differ in which of two equal names counts. protojson, by which connect reads,
// refuses them, in either spelling; the key is made from the message that it has read.
func TestNameTwiceInJSONIsRefused(t *testing.T) {
	s := newShop(t)
	for _, body := range []string{
		`{"orderId":"42","orderId":"else"}`,
		`{"orderId":"42","order_id":"else"}`,
		`{"order_id":"else","orderId":"42"}`,
		`{"order_id":"42","order_id":"42"}`,
		`{"order\u0049d":"42","orderId":"else"}`,
		`{"orderId":"42","card":"1","voucher":2}`,
		`{"orderId":"42","customer":{"id":"ann","id":"eve"}}`,
	} {
		if response, answer := s.post(t, body); response.StatusCode != http.StatusBadRequest || answer["code"] != "invalid_argument" {
			t.Errorf("%s: %d %v", body, response.StatusCode, answer)
		}
	}
	s.WantRuns(0)
	s.WantUnasked()
	for _, body := range []string{`{"orderId":"42"}`, `{"order_id":"42"}`} {
		if response, answer := s.post(t, body); response.StatusCode != http.StatusOK || answer["text"] != "order:42" {
			t.Errorf("%s: %d %v", body, response.StatusCode, answer)
		}
	}
}
