// Command upload stores files. Nobody else writes a file while it is sent, and a client that is too
// slow does not keep it.
package main

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const (
	longest = 2 * time.Minute  // an upload may take, and so may a lock be held
	silence = 10 * time.Second // a client may take for each KiB
	largest = 100 << 20        // bytes
)

// routes returns the service, which keeps its files in dir.
func routes(locks *lockmw.Locker, dir *os.Root, longest, silence time.Duration) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.name}"),
		lockmw.Policy{Prefix: "file:", MaxHold: longest}, // no Wait: a second upload is refused at once
		httplock.WithBodyTimeout(silence))
	mux := http.NewServeMux()
	mux.Handle("PUT /files/{name}", limit(lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := save(r, dir); err != nil {
			slog.Warn("an upload failed", "error", err)
			http.Error(w, "the file was not stored", http.StatusRequestTimeout)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))))
	return mux
}

// limit is in front of the lock, so that a body that is too long is read no further.
func limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, largest)
		next.ServeHTTP(w, r)
	})
}

// save writes beside the file, and puts it in its place at the end.
func save(r *http.Request, dir *os.Root) error {
	name := r.PathValue("name")
	part, err := dir.Create(name + ".part") // nobody else writes it: we have the lock
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove(name + ".part") }() // it is not there after Rename
	_, err = io.Copy(part, r.Body)                    // fails for a silent client, after MaxHold, and when the lock is lost
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
		Addr:              ":8080",
		Handler:           routes(locks, dir, longest, silence),
		ReadHeaderTimeout: 5 * time.Second, // a ReadTimeout would be for the body, too
	}
	log.Fatal(server.ListenAndServe())
}
