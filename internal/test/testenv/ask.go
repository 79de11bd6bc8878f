package testenv

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// Ask sends a handler a request without a body, such as "POST /orders/42/pay", or
// "POST /orders/42/pay ann" for one whose header X-User is "ann". It returns the status
// and the text of the answer. The text of a problem is left out.
func Ask(h http.Handler, request string) (answer string) {
	words := append(strings.Split(request, " "), "")
	r := httptest.NewRequestWithContext(context.Background(), words[0], words[1], nil)
	r.Header.Set("X-User", words[2])
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text := strings.TrimSpace(w.Body.String())
	if w.Header().Get("Content-Type") == "application/problem+json" {
		text = ""
	}
	return fmt.Sprintf("%d %s", w.Code, text)
}
