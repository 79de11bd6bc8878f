package lockmw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/lockmw/kit/internal/settings"
	"github.com/lockmw/kit/internal/store"
)

// How the sources of settings are read: each by a goroutine of its own, which the keeper's stop ends.

const (
	fileEvery  = 2 * time.Second
	redisEvery = 10 * time.Second

	// hintPause is the least time from one reading of Redis to the next, however many messages say that something has changed.
	// It is longer where that reading came to nothing.
	hintPause  = 200 * time.Millisecond
	afterFault = time.Second

	// firstLook is how long New waits at most for a first look at a file: one on a server that is away hangs.
	firstLook = time.Second

	mostFile = 1 << 20 // bytes
)

// A feed is a source and what it has said.
type feed struct {
	kind   string
	path   string                            // of a file
	known  map[settings.Pattern]*liveSetting // what it has for this service, also what has ended
	broken map[string]string                 // what cannot be used, by its pattern, and why; of a file as a whole by its path
	unused int                               // how many these are, also those that are not in broken any more
	last   time.Time                         // when it was read last, or if it never was, when the Locker began

	// The goroutine that reads the source uses these alone.
	content []byte // of a file, as it was last looked at
	fault   string // why it could not be read the last time; empty: it could
	lasting bool   // the log says of Redis why it cannot be read until somebody mends that
}

// watchFile looks at a file again and again. It closes looked when it has done so once.
func (k *settingsKeeper) watchFile(f *feed, looked chan<- struct{}) {
	k.lookAt(f)
	close(looked)
	for k.pause(fileEvery) {
		k.lookAt(f)
		nudge(k.moved) // an end may have come while the machine was suspended, and the timer with it
	}
}

// lookAt looks at a file once.
func (k *settingsKeeper) lookAt(f *feed) {
	content, err := readFile(f.path)
	if err != nil {
		k.cannotRead(f, err)
		return
	}
	k.canRead(f)
	if f.content != nil && bytes.Equal(content, f.content) {
		k.readAgain(f)
		return
	}
	f.content = content
	entries, err := settings.ParseFile(content)
	if err != nil {
		k.mu.Lock()
		f.broken, f.unused = map[string]string{f.path: err.Error()}, 1
		k.mu.Unlock()
		attrs := append([]any{"file", f.path, "error", err}, k.still(f)...)
		k.locker.log.Error("lockmw: a file of settings cannot be read; nothing is changed until it is mended", attrs...)
		return
	}
	k.accept(f, entries, nil, time.Now(), 0)
}

// errNoFile is why something else than a file is not read: a pipe would hang.
var errNoFile = errors.New("it is no regular file")

func readFile(path string) ([]byte, error) {
	// It follows symlinks, by which a ConfigMap changes. A pipe is opened without waiting for whoever writes to it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the program names the file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	content, err := io.ReadAll(io.LimitReader(file, mostFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > mostFile:
		return nil, fmt.Errorf("it has more than %d bytes", mostFile)
	case content == nil:
		content = []byte{}
	}
	return content, nil
}

// watchRedis reads Redis again and again.
func (k *settingsKeeper) watchRedis(f *feed) {
	for {
		k.readRedis(f)
		nudge(k.moved) // as for a file
		pause := hintPause
		if f.fault != "" {
			pause = afterFault
		}
		if !k.pause(pause) {
			return
		}
		timer := time.NewTimer(redisEvery - hintPause)
		select {
		case <-timer.C:
		case <-k.hints:
		case <-k.ctx.Done():
		}
		timer.Stop()
		if k.ctx.Err() != nil {
			return
		}
	}
}

// readRedis reads Redis once.
func (k *settingsKeeper) readRedis(f *feed) {
	ctx, cancel := context.WithTimeout(k.ctx, opTimeout)
	defer cancel()
	asked := time.Now() // so that nothing ends later because the answer comes late
	texts, clock, err := k.locker.store.Settings(ctx)
	if k.ctx.Err() != nil {
		return
	}
	if err != nil {
		k.cannotRead(f, err)
		return
	}
	k.canRead(f)
	entries, broken := make(map[settings.Pattern]settings.Entry), make(map[string]string)
	for name, text := range texts {
		pattern, err := settings.ParsePattern(name)
		if err != nil || !pattern.Serves(k.service) { // of others; lockctl tells of one that is nobody's
			continue
		}
		entry, err := settings.Parse(text)
		if err != nil {
			broken[name] = err.Error()
			continue
		}
		entries[pattern] = entry
	}
	k.accept(f, entries, broken, asked, clock)
}

// cannotRead notes that a source was not read, and logs why: of a file once for each reason. The texts of Redis differ from try to try: of
// these the first is logged, and behind it the first that lasts until somebody mends it, such as a right that is missing.
func (k *settingsKeeper) cannotRead(f *feed, err error) {
	if f.kind == fromFile && errors.Is(err, fs.ErrNotExist) {
		f.content = nil // what comes in its place is told of
	}
	lasting := f.kind == fromRedis && store.AsError(err).Permanent && !f.lasting
	if f.fault == err.Error() || f.kind == fromRedis && f.fault != "" && !lasting {
		return
	}
	f.fault, f.lasting = err.Error(), f.lasting || lasting
	attrs := append([]any{"source", f.kind, "error", err}, k.still(f)...)
	k.logOf(f).Warn("lockmw: settings cannot be read; those that are known stay until they end", attrs...)
}

// still returns what the log says of the settings of a source that have work run without its lock.
func (k *settingsKeeper) still(f *feed) (attrs []any) {
	var off, shadow []string
	for _, live := range k.table.Load().lives {
		switch pattern := live.pattern.String(); {
		case live.source != f.kind || live.denied:
		case live.entry.Off:
			off = append(off, pattern)
		case live.entry.Shadow == settings.True:
			shadow = append(shadow, pattern)
		}
	}
	if len(off) > 0 {
		attrs = append(attrs, "still_off", settings.First(off, false))
	}
	if len(shadow) > 0 {
		attrs = append(attrs, "still_shadow", settings.First(shadow, false))
	}
	return attrs
}

// canRead notes that a source was read, and logs it where the log says that it cannot be.
func (k *settingsKeeper) canRead(f *feed) {
	if f.fault != "" {
		k.logOf(f).Info("lockmw: settings can be read again", "source", f.kind)
		f.fault, f.lasting = "", false
	}
}

// logOf is the log that is told that a source cannot be read, and that it can be again. Where that lasts until somebody mends it, it is told also
// where nobody has given a logger. That Redis is away is nothing about settings: it passes, and then they are read.
func (k *settingsKeeper) logOf(f *feed) *slog.Logger {
	if f.kind == fromFile || f.lasting {
		return k.loud
	}
	return k.locker.log
}

// readAgain notes that a source says what it said before.
func (k *settingsKeeper) readAgain(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.broken[f.path] == "" {
		f.last = time.Now()
	}
}

// pause waits for d. It reports false if the Locker ends meanwhile.
func (k *settingsKeeper) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.ctx.Done():
		return false
	}
}
