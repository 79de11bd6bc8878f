package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// A ledger holds one balance per account. Reading and writing are two
// requests, and nothing ties them together: whoever writes back what it read
// some time ago overwrites what others wrote since. That is for its users to
// prevent. (The mutex only keeps the map itself sound.)
type ledger struct {
	mu       sync.Mutex
	balances map[string]int
}

func newLedger() *ledger { return &ledger{balances: make(map[string]int)} }

func (l *ledger) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /accounts/{id}", l.get)
	mux.HandleFunc("PUT /accounts/{id}", l.put)
	return mux
}

func (l *ledger) get(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	balance := l.balances[r.PathValue("id")]
	l.mu.Unlock()
	fmt.Fprintln(w, balance)
}

func (l *ledger) put(w http.ResponseWriter, r *http.Request) {
	balance, err := readNumber(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.balances[r.PathValue("id")] = balance
	l.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// take returns an account's balance and sets it to 0.
func (l *ledger) take(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	balance := l.balances[id]
	delete(l.balances, id)
	return balance
}

// readNumber reads a number of some 20 digits at most.
func readNumber(r io.Reader) (int, error) {
	text, err := io.ReadAll(io.LimitReader(r, 32))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// ledgerConns is how many connections to the ledger one shop opens at most.
// Behind the lock one is in use at a time; without it every request wants one.
const ledgerConns = 16

// A ledgerClient is a shop's view of the ledger.
type ledgerClient struct {
	url  string
	http *http.Client
}

func newLedgerClient(url string) *ledgerClient {
	return &ledgerClient{url, &http.Client{Transport: &http.Transport{
		MaxConnsPerHost:     ledgerConns,
		MaxIdleConnsPerHost: ledgerConns,
	}}}
}

func (c *ledgerClient) read(ctx context.Context, id string) (int, error) {
	body, err := c.do(ctx, http.MethodGet, id, nil)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return readNumber(body)
}

func (c *ledgerClient) write(ctx context.Context, id string, balance int) error {
	body, err := c.do(ctx, http.MethodPut, id, strings.NewReader(strconv.Itoa(balance)))
	if err != nil {
		return err
	}
	return body.Close()
}

func (c *ledgerClient) do(ctx context.Context, method, id string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/accounts/"+url.PathEscape(id), body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		resp.Body.Close()
		return nil, fmt.Errorf("ledger: %s", resp.Status)
	}
	return resp.Body, nil
}
