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

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/report"
)

const (
	defaultNamespace = "lock"
	defaultPerKey    = 1000
	defaultTotal     = 10000
	maxNamespaceLen  = 128 // bytes
	maxInstanceLen   = 64  // bytes
)

// An Option changes how a Locker behaves. If an option was given something wrong, New and
// NewQuorum return the error.
type Option func(*options) error

type options struct {
	namespace           string
	instance            string
	note                func(context.Context) string
	logger              *slog.Logger // nil: a few errors and warnings go to slog.Default()
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

// WithNamespace sets what all Redis keys and channels begin with: the lock of key k is the
// Redis key "<ns>:{<prefix><k>}". Lockers exclude each other only within one namespace. ns is
// 1 to 128 bytes without braces and control characters. The default is "lock".
//
// A name that ends with ":shadow" is refused: in "<ns>:shadow" lie the locks of policies with
// Shadow of the namespace ns. The name "lockmw", and every name that begins with "lockmw:", is
// refused, too. The settings of all namespaces lie there (SettingsInRedis). A service may write
// below its own namespace, and must not write those.
func WithNamespace(ns string) Option {
	return func(o *options) error {
		if of, reserved := strings.CutSuffix(ns, redisstore.ShadowEnd); reserved {
			return fmt.Errorf("WithNamespace: %q: there lie the locks of policies with Shadow of the namespace %q, which would be in each other's way; take another name", ns, of)
		}
		return lookInto(ns)(o)
	}
}

// lookInto is WithNamespace, and also takes the namespace of policies with Shadow: for an operator who looks at their locks.
func lookInto(ns string) Option {
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

// WithInstance says what this process is called, for Info and AcquireError.Holder: its pod, or
// whatever people find it by. name is 1 to 64 bytes of printable UTF-8. New and NewQuorum add
// ten random letters and digits, because no two Lockers may be called the same. The default is
// the host's name and the number of the process.
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

// WithNote gives each lock a short text about the call that has it, such as the id of a
// request or a trace. It is for operators: Inspect and List show it as Holder.Note and
// Waiter.Note. When another call is refused, its error, log line and event have the holder's
// note. No client is told.
//
// Acquire calls note with its own context, before it asks Redis. note must be safe for
// concurrent use. An empty text is no note. Redis keeps the first 128 bytes of the text. Where
// leases of this process follow one another without Redis's knowing, Redis has the note of the
// first one, for up to a second.
func WithNote(note func(ctx context.Context) string) Option {
	return func(o *options) error {
		if note == nil {
			return fmt.Errorf("WithNote: the function is nil")
		}
		o.note = note
		return nil
	}
}

// WithLogger sets where the Locker logs what an operator should know:
//
//   - refusals: for each Name and code the first one, and then at most one a second. A key
//     that no request of its route can have gets one line for as long as the program runs. All
//     refusals together get at most 100 lines a second;
//   - leases that were lost or are held for too long, and releases that failed;
//   - work that runs without its lock;
//   - policies in shadow, and what would have come of their calls;
//   - live settings (WithSettings), and what operators do by hand;
//   - a missing subscription to releases, and settings of the server that endanger locks.
//
// If Redis cannot be reached, that shows in these lines. Renewals that fail are told to
// observers alone. The log has keys, and never tokens.
//
// Without WithLogger, the log has only a few errors and warnings:
//
//   - mistakes of the program: refusals with CodeMisuse, tickets that could not be issued, a lock
//     in front of Idempotent, answers that cannot be given again, and a panic of an observer;
//   - keys that are made of a number in several spellings, once for each route and value;
//   - uncertain work: refusals with CodeIdempotencyUncertain, one line for each work;
//   - policies with Shadow, one line a minute for each Name, for 20 Names at most, and one that
//     says that there are more;
//   - settings that say off, in the same way;
//   - settings that do not apply until somebody mends it: a SettingsFile that cannot be read, a
//     right to read SettingsInRedis that is missing, and an entry that cannot be used, that the
//     program does not allow (AllowOff), or that does not fit a policy. That Redis is away is not
//     logged.
//
// These lines go to the logger that is slog.Default() when New is called. To silence them too,
// give WithLogger a logger over slog.DiscardHandler.
//
// Lines are written in the background, one after the other. So a logger that is slow or blocks
// holds up no lock. The lines wait in one queue with the events that WithObserver tells in the
// background, so they are late where an observer blocks there. If more than 16,384 lines and
// events wait together, further ones are dropped, and a later line says how many.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) error {
		if logger == nil {
			return fmt.Errorf("WithLogger: the logger is nil")
		}
		o.logger = logger
		return nil
	}
}

// WithObserver has observer called with every Event. The option may be given more than once:
// the observers are called one after the other, in the order of the options. They are called
// from many goroutines at the same time, for different leases, and should return soon.
//
// Some events are told before the call that brought them about returns: acquired, handed over,
// refused, failed open, switched off, skipped, answered, released (unless Close did it),
// released by force, and resolved. An observer that blocks there holds up this call and
// nothing else. If the call is about to return a lease, the lock is held meanwhile.
//
// All other events are told in the background, in their order, one after the other. An
// observer that blocks there delays the events that follow, and the log. If more than 16,384
// events and lines of the log wait together, further ones are dropped. With WithLogger, a log
// line says how many. A panic of an observer is recovered; the first one is logged.
func WithObserver(observer func(context.Context, Event)) Option {
	return func(o *options) error {
		if observer == nil {
			return fmt.Errorf("WithObserver: the observer is nil")
		}
		o.observers = append(o.observers, observer)
		return nil
	}
}

// WithStats has New and NewQuorum call begin with a function that returns the Locker's Stats.
// It is for gauges that are read again and again. Before Close returns, it calls the stop that
// begin returned, unless that is nil. Stats may be read until then, and afterwards. The option
// may be given more than once.
func WithStats(begin func(read func() Stats) (stop func())) Option {
	return func(o *options) error {
		if begin == nil {
			return fmt.Errorf("WithStats: the function is nil")
		}
		o.readers = append(o.readers, begin)
		return nil
	}
}

// Options makes one Option of several, which are applied in their order. It is for packages
// that observe Lockers and offer that as one Option.
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

// Failed makes an Option with which New and NewQuorum return err. It is for packages whose own
// options were given something wrong.
func Failed(err error) Option {
	return func(*options) error {
		if err == nil {
			return fmt.Errorf("Failed: the error is nil")
		}
		return err
	}
}

// WithMaxWaiters limits how many calls may wait in this Locker, for one key and in total. A
// further call gets ErrQueueFull, unless the lock is free. The defaults are 1000 and 10,000.
// perKey must be at least 1, and total at least perKey.
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
