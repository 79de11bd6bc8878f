// Command upload stores files. Nobody else writes a file while it is sent, and a client that is too
// slow does not keep it.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// limits are those of one upload.
type limits struct {
	longest time.Duration // it may take, and so may its lock be held
	silence time.Duration // the client may take for each KiB
	largest int64         // bytes
}

// routes returns the service, which keeps its files in dir.
func routes(locks *lockmw.Locker, dir *os.Root, most limits) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.name}"),
		lockmw.Policy{Prefix: "file:", MaxHold: most.longest}, // no Wait: a second upload is refused at once
		httplock.WithBodyTimeout(most.silence))
	mux := http.NewServeMux()
	mux.Handle("PUT /files/{name}", limit(most.largest, lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !plain(r.PathValue("name")) {
			http.Error(w, "that is no name of a file", http.StatusBadRequest)
			return
		}
		if err := save(r, dir); err != nil {
			slog.Warn("an upload failed", "error", err)
			http.Error(w, "the file was not stored", statusOf(err))
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))))
	return mux
}

// limit is in front of the lock. A body that says that it is too long takes none and is not read; one
// that does not say so is read up to the limit.
func limit(largest int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > largest {
			http.Error(w, "the file is too large", http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, largest)
		next.ServeHTTP(w, r)
	})
}

// plain reports whether a file has no other name: "./a", which a client can send as .%2Fa, is the file a under another
// lock, and a.part is where a is written.
func plain(name string) bool { return name == filepath.Base(name) && !strings.HasSuffix(name, ".part") }

// statusOf says who must do something so that an upload does not fail again: the client, or we.
func statusOf(err error) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, lockmw.ErrMaxHold): // silent, or slow
		return http.StatusRequestTimeout
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled): // it left before the end
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError // the disk, or a lock that was lost
}

// save writes beside the file, and puts it in its place at the end.
func save(r *http.Request, dir *os.Root) error {
	name := r.PathValue("name")
	part, err := dir.Create(name + ".part") // nobody else writes it: we have the lock
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove(name + ".part") }() // it is not there after Rename
	_, err = io.Copy(part, r.Body)                    // fails for a silent client, over the limit, after MaxHold, and when the lock is lost
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if lease, _ := lockmw.FromContext(r.Context()); !lease.Valid() { // right before the side effect
		return lockmw.ErrLost
	}
	return dir.Rename(name+".part", name)
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.OpenRoot(os.TempDir())
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), ":8080"),
		Handler:           routes(locks, dir, limits{longest: 2 * time.Minute, silence: 10 * time.Second, largest: 100 << 20}),
		ReadHeaderTimeout: 5 * time.Second, // a ReadTimeout would be for the body, too
	}
	log.Fatal(server.ListenAndServe())
}
