package lockmw

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockmw/kit/internal/report"
)

const (
	defaultNamespace = "lock"
	defaultPerKey    = 1000
	defaultTotal     = 10000
	maxNamespaceLen  = 128 // bytes
	maxInstanceLen   = 64  // bytes
)

// An Option changes how a Locker behaves. Where an option is given something wrong,
// New and NewQuorum return the error.
type Option func(*options) error

type options struct {
	namespace           string
	instance            string
	note                func(context.Context) string
	logger              *slog.Logger // nil: mistakes of the program and uncertain work go to slog.Default()
	observers           []func(context.Context, Event)
	readers             []func(read func() Stats) (stop func())
	reports             *report.Queue // has the lines of logger
	maxPerKey, maxTotal int
	acks                int // replicas that confirm an acquire
	acksWithin          time.Duration
	settings            []SettingsSource
	service             string
	allowsOff           bool
}

func gather(opts []Option) (options, error) {
	o := options{
		namespace: defaultNamespace,
		instance:  defaultInstance(),
		service:   defaultService(),
		maxPerKey: defaultPerKey,
		maxTotal:  defaultTotal,
	}
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("lockmw: option %d is nil", i+1)
		}
		if err := opt(&o); err != nil {
			return o, fmt.Errorf("lockmw: %w", err)
		}
	}
	o.reports = report.New(o.logger)
	o.logger = o.reports.Logger()
	return o, nil
}

// WithNamespace sets what all Redis keys and channels begin with: the lock of key k is
// the Redis key "<ns>:{<prefix><k>}". Lockers exclude each other only within one
// namespace. It is 1 to 128 bytes without braces and control characters. The default
// is "lock". "<ns>:shadow" is for policies with Shadow. "lockmw", and what begins with "lockmw:", is refused: there lie the settings of all
// namespaces (SettingsInRedis), and a service may write below its namespace.
func WithNamespace(ns string) Option {
	return func(o *options) error {
		if ns == "" {
			return fmt.Errorf("WithNamespace: empty: the keys would lie between other programs' keys")
		}
		if len(ns) > maxNamespaceLen {
			return fmt.Errorf("WithNamespace: %d bytes are more than %d", len(ns), maxNamespaceLen)
		}
		if r, bad := badRune(ns); bad {
			return fmt.Errorf("WithNamespace: has the character %q; braces and control characters are not allowed", r)
		}
		if ns == "lockmw" || strings.HasPrefix(ns, "lockmw:") {
			return fmt.Errorf("WithNamespace: %q: below lockmw lie the settings of all namespaces, which only operators may write; take another name", ns)
		}
		o.namespace = ns
		return nil
	}
}

// WithInstance says what this process is called, for Info and AcquireError.Holder: its pod,
// or whatever it is found by. It is 1 to 64 bytes of printable UTF-8. New adds ten random
// letters and digits, because no two Lockers may be called the same. The default is the host's name
// and the number of the process.
func WithInstance(name string) Option {
	return func(o *options) error {
		switch {
		case name == "":
			return fmt.Errorf("WithInstance: empty")
		case len(name) > maxInstanceLen:
			return fmt.Errorf("WithInstance: %d bytes are more than %d", len(name), maxInstanceLen)
		case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("WithInstance: %q has characters that cannot be printed", name)
		}
		o.instance = name
		return nil
	}
}

// defaultInstance is the host's name, which is a pod's in a cluster of containers, and the
// number of the process.
func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil || host == "" || !utf8.ValidString(host) {
		host = "unknown"
	}
	pid := fmt.Sprintf("-%d", os.Getpid())
	return host[:min(len(host), maxInstanceLen-len(pid))] + pid
}

// WithNote has each lock carry a short text about the call that has it, such as the id of
// a request or a trace, for operators: Inspect and List show it as Holder.Note and Waiter.Note, and the error, the log line and the event of
// a call that is refused name it. No client is told. note is called by each Acquire, with its context, before Redis is
// asked, and must be safe for concurrent use; an empty text is no note. It is part of what
// Redis keeps: of a long one the first 128 bytes. Where leases of this process follow one
// another without Redis's knowing, it is for up to a second that of the first.
func WithNote(note func(ctx context.Context) string) Option {
	return func(o *options) error {
		if note == nil {
			return fmt.Errorf("WithNote: the function is nil")
		}
		o.note = note
		return nil
	}
}

// WithLogger sets where the Locker reports what an operator should know: refusals (of each
// Name and code the first, and then at most one a second; of a key that no request of its
// route can have, one line as long as the program runs; of all together at most 100 a second),
// leases that were lost or are held for too long, releases that failed, work that runs without
// its lock, policies in shadow and what would have come of their calls, a lack of messages, settings of the server that endanger locks. A Redis that
// cannot be reached shows in these lines. Renewals that fail are told to observers alone. It
// logs keys, never tokens.
//
// By default only mistakes of the program, uncertain work and policies in shadow are logged: refusals whose code is CodeMisuse or
// CodeIdempotencyUncertain, of the latter one line for each work, a line a minute for each Name with Policy.Shadow, and a panic of an observer. They go to the logger that is slog.Default() when New is called. A logger over
// slog.DiscardHandler silences them, too.
//
// Lines are written in the background, one after the other: a logger that is slow or
// blocks holds up no lock. They wait in one queue with the events that WithObserver tells in the
// background, and so are late where an observer blocks there. Where more than 16,384 lines and events together wait,
// further ones are dropped, and counted in a later line.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) error {
		if logger == nil {
			return fmt.Errorf("WithLogger: the logger is nil")
		}
		o.logger = logger
		return nil
	}
}

// WithObserver has observer called with every Event. The option may be given more than
// once: the observers are called one after the other, in the order of the options. They
// are called from many goroutines at the same time, for different leases, and should
// return soon.
//
// What Acquire or Release brought about is told before it returns: acquired, handed
// over, refused, failed open, released. An observer that blocks there holds up this
// call and nothing else (if it is about to return a lease, the lock is held meanwhile).
// All other events are told in the background, in their order, one after the other: an
// observer that blocks there delays those that follow, and the log. Where more than 16,384 of them
// and lines of the log wait, further ones are dropped, and counted in a log line. A panic of an observer
// is recovered; the first one is logged.
func WithObserver(observer func(context.Context, Event)) Option {
	return func(o *options) error {
		if observer == nil {
			return fmt.Errorf("WithObserver: the observer is nil")
		}
		o.observers = append(o.observers, observer)
		return nil
	}
}

// WithStats has New and NewQuorum call begin with a function that returns the Locker's Stats, for gauges
// that are read again and again. Close calls the stop that begin returned, unless it is
// nil, before it returns; Stats may be read until then and after it. The option may be
// given more than once.
func WithStats(begin func(read func() Stats) (stop func())) Option {
	return func(o *options) error {
		if begin == nil {
			return fmt.Errorf("WithStats: the function is nil")
		}
		o.readers = append(o.readers, begin)
		return nil
	}
}

// Options makes one Option of several, which are applied in their order: for packages that
// observe Lockers and offer it as one Option.
func Options(opts ...Option) Option {
	return func(o *options) error {
		for i, opt := range opts {
			if opt == nil {
				return fmt.Errorf("Options: option %d is nil", i+1)
			}
			if err := opt(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// Failed makes an Option with which New and NewQuorum return err: for packages whose own
// options were given something wrong.
func Failed(err error) Option {
	return func(*options) error {
		if err == nil {
			return fmt.Errorf("Failed: the error is nil")
		}
		return err
	}
}

// WithMaxWaiters bounds how many calls of Acquire may wait in this Locker, for one key
// and in total. One more gets ErrQueueFull, unless the lock is free. The defaults are
// 1000 and 10,000. perKey must be at least 1, and total at least perKey.
func WithMaxWaiters(perKey, total int) Option {
	return func(o *options) error {
		switch {
		case perKey < 1:
			return fmt.Errorf("WithMaxWaiters: perKey is %d; at least 1 is needed", perKey)
		case total < perKey:
			return fmt.Errorf("WithMaxWaiters: total (%d) is less than perKey (%d)", total, perKey)
		}
		o.maxPerKey, o.maxTotal = perKey, total
		return nil
	}
}
