package lockadmin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// writeWithin is how long a browser may take to read what it is told. One that does
	// not is dead, or reconnects.
	writeWithin = 15 * time.Second

	// lookEvery is how often a page is told of new refusals and losses.
	lookEvery = time.Second

	// mostSilence is how long a page is told nothing at the most: it takes longer
	// silence for a broken connection.
	mostSilence = 3 * lookEvery
)

// stream tells a page of all locks, and of every change, as server-sent events. It ends
// with the request, or when the server shuts down: http.Server.Shutdown waits for it.
func (c *console) stream(w http.ResponseWriter, r *http.Request) {
	ending := c.ends.of(r)
	shared := c.join()
	if shared == nil {
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	defer c.leave(shared)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // a server's ReadTimeout is not meant for a response without end
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	if err := out.Flush(); err != nil {
		c.options.logger.Error("lockadmin: the page stays empty: what is in front of the handler cannot send a response in parts", slog.Any("error", err))
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var at cursor
	var incidents uint64
	var settings []setting
	var shadow []string
	first, due, silence := true, true, time.Duration(0)
	for {
		news, was := shared.table.news(), at
		var m message
		m, at = shared.table.since(at)
		if v := c.recent.Version(); first || v != incidents {
			incidents = v
			past, _ := c.recent.Newest()
			all := incidentsOf(past)
			m.Past = &all
		}
		if now := settingsOf(c.locks); !slices.EqualFunc(now, settings, setting.same) {
			settings = now
			m.Settings = &settings
		}
		if now := inShadow(c.locks); !slices.Equal(now, shadow) {
			shadow = now
			m.Shadow = &shadow
		}
		if due || at != was || m.Past != nil || m.Settings != nil || m.Shadow != nil {
			_ = out.SetWriteDeadline(time.Now().Add(writeWithin))
			if write(w, m) != nil || out.Flush() != nil {
				return
			}
			silence = 0
		}
		first, due = false, m.More
		if m.More {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-ending:
			return
		case <-news:
			due = true // the status may be another one
		case <-look.C:
			silence += lookEvery
			due = silence >= mostSilence
		}
	}
}

// write writes a message as an event: one line, because JSON has no line breaks.
func write(w http.ResponseWriter, m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	text = append(append([]byte("data: "), text...), "\n\n"...)
	_, err = w.Write(text)
	return err
}

// ends are when the servers shut down that requests came from.
type ends struct {
	mu  sync.Mutex
	all map[*http.Server]chan struct{}
}

// of returns a channel that is closed when the server of r shuts down, or nil if that
// cannot be known.
func (e *ends) of(r *http.Request) <-chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ending, known := e.all[server]
	if !known {
		ending = make(chan struct{})
		if e.all == nil {
			e.all = make(map[*http.Server]chan struct{})
		}
		e.all[server] = ending
		server.RegisterOnShutdown(sync.OnceFunc(func() { close(ending) }))
	}
	return ending
}
