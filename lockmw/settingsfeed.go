package lockmw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/lockmw/kit/internal/settings"
)

// How the sources of settings are read: each by a goroutine of its own, which the keeper's stop ends.

const (
	fileEvery  = 2 * time.Second
	redisEvery = 10 * time.Second

	// hintPause is the least time from one reading of Redis to the next, however many messages say that something has changed.
	hintPause = 200 * time.Millisecond

	mostFile = 1 << 20 // bytes
)

// A feed is a source and what it has said.
type feed struct {
	kind   string
	path   string                            // of a file
	known  map[settings.Pattern]*liveSetting // what it has for this service, also what has ended
	broken map[string]string                 // what cannot be read, by its pattern, and why; of a file as a whole by its path
	last   time.Time                         // when it was read last, or if it never was, when the Locker began

	// The goroutine that reads the source uses these alone.
	content []byte // of a file, as it was last looked at
	failing bool   // it could not be read the last time
}

// watchFile looks at a file again and again.
func (k *settingsKeeper) watchFile(f *feed) {
	for k.pause(fileEvery) {
		k.lookAt(f)
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
		f.broken = map[string]string{f.path: err.Error()}
		k.mu.Unlock()
		k.locker.log.Error("lockmw: a file of settings cannot be read; nothing is changed until it is mended", "file", f.path, "error", err)
		return
	}
	k.accept(f, entries, nil, 0)
}

// errNoFile is why something else than a file is not read: a pipe would hang.
var errNoFile = errors.New("it is no regular file")

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // it follows symlinks, by which a ConfigMap changes
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	file, err := os.Open(path) //nolint:gosec // the program names the file
	if err != nil {
		return nil, err
	}
	defer file.Close()
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
		if !k.pause(hintPause) {
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
	k.accept(f, entries, broken, clock)
}

// cannotRead notes that a source was not read, and logs the first time why.
func (k *settingsKeeper) cannotRead(f *feed, err error) {
	if !f.failing {
		k.locker.log.Warn("lockmw: settings cannot be read; those that are known stay until they end", "source", f.kind, "error", err)
		if f.kind == fromFile && errors.Is(err, fs.ErrNotExist) {
			f.content = nil // what comes in its place is told of
		}
	}
	f.failing = true
}

// canRead notes that a source was read, and logs it where the log says that it cannot be.
func (k *settingsKeeper) canRead(f *feed) {
	if f.failing {
		f.failing = false
		k.locker.log.Info("lockmw: settings can be read again", "source", f.kind)
	}
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
