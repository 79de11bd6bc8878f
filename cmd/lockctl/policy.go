package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/settings"
	"github.com/lockmw/kit/lockmw"
)

// Live settings: what services that have lockmw.WithSettings(lockmw.SettingsInRedis()) read.

const policyLong = "Show and change what services do while they run: those that have\n" +
	"lockmw.WithSettings(lockmw.SettingsInRedis()). A setting is for service/name: the service is that of\n" +
	"WithService, by default the name of the program's file, and the name is Policy.Name, or Policy.Prefix\n" +
	"where there is none. Either may end with a *, for whatever follows; quote it, or a shell takes it for a\n" +
	"pattern of files. The most specific setting counts, and no other. Calls that come later see it within a second."

func policyCommand(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "Show and change live settings of policies", Long: policyLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misused("%q is none of set, ls and clear", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return misused("policy takes set, ls or clear") },
	}
	c.AddCommand(policySetCommand(f), policyLsCommand(f), policyClearCommand(f))
	return c
}

func policySetCommand(f *flags) *cobra.Command {
	var lasts lasting
	var by operator
	var yes bool
	c := &cobra.Command{
		Use:   "set SERVICE/NAME FIELD=VALUE...",
		Short: "Change policies while services run",
		Long: "Change policies while services run, in the place of what is set for the same service/name.\n\n" +
			"  wait     for how long a call waits, in the place of Wait and Retries; none is one attempt\n" +
			"  maxHold  after how long work is told to stop; none is no cap\n" +
			"  ttl      how long Redis keeps a lock without a renewal: raised, to 1h at most, or lowered to 5s at least\n" +
			"  shadow   true: the lock is only tried, and locks nobody out, in programs with AllowOff; false: it is taken\n\n" +
			"A service whose policy the change does not fit leaves that policy as it is, and says so in its log, its\n" +
			"console and the metric lockmw_settings_refused. Without --for the setting stays until 'lockctl policy clear'.\n" +
			"With a *, with shadow=true, which also wants a --reason, and where it takes away what another setting\n" +
			"changes, set asks first, and sets nothing if somebody else has changed the setting before the answer. There is\n" +
			"no off: it stands in a service's file of settings alone.",
		Example: "  lockctl policy set shop/pay wait=5s --for 1h --reason INC-42\n" +
			"  lockctl policy set 'shop/*' ttl=1m maxHold=10m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return misused("set takes SERVICE/NAME and one FIELD=VALUE or more")
			}
			return nil
		},
		ValidArgsFunction: f.completeSetting(true),
		RunE: func(c *cobra.Command, args []string) error {
			pattern, entry, err := entryOf(args)
			switch {
			case err != nil:
				return misused("%v", err)
			case entry.Shadow == settings.True && by.reason == "":
				return misused("shadow=true takes the lock away: say why, with --reason")
			}
			who := by.intervention()
			entry.Author, entry.Reason = who.Author, who.Reason
			if _, err := entry.Format(); err != nil { // before Redis is asked
				return misused("%v", err)
			}
			if err := f.target.ofServices(); err != nil {
				return err
			}
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			var was *string // in whose place the change stands, as it was shown; nil: whatever is there
			if !yes {
				if was, err = confirmSetting(c, locks, pattern, entry.Change, lasts); err != nil {
					return err
				}
			}
			return set(c.Context(), locks, pattern, was, entry, lasts, f.output, c.OutOrStdout())
		},
	}
	c.Flags().Var(&lasts, "for", "for how long, such as 1h")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = c.RegisterFlagCompletionFunc("for", cobra.NoFileCompletions) // the flag is there
	by.add(c)
	return c
}

// A lasting is the value of --for; zero: the flag is not there.
type lasting time.Duration

// Set reads it from the command line.
func (l *lasting) Set(text string) error {
	d, err := settings.Lasting(text)
	*l = lasting(d)
	return err
}

// Type is what the help calls it.
func (l *lasting) Type() string { return "duration" }

func (l *lasting) String() string {
	if *l == 0 {
		return "" // no default is told
	}
	return time.Duration(*l).String()
}

// phrase is what a sentence that says what is set ends with.
func (l *lasting) phrase() string {
	if *l == 0 {
		return ""
	}
	return " for " + l.String()
}

// confirmSetting asks whether to set a change, where there is something that a person is to know before, and returns what is set there now.
func confirmSetting(c *cobra.Command, locks *lockmw.Locker, pattern settings.Pattern, change settings.Change, lasts lasting) (was *string, err error) {
	texts, clock, err := seam.ReadSettings(c.Context(), locks)
	if err != nil {
		return nil, failed(err)
	}
	text := texts[pattern.String()]
	about := dangers(pattern, change) + takenAway(pattern, text, clock, change)
	if about == "" {
		return &text, nil
	}
	about += fmt.Sprintf("Set %s to %s%s?", quoted(pattern.String()), change, lasts.phrase())
	return &text, question{about, "not set", "sets"}.ask(c)
}

// dangers says what a person is to know before a change is set; empty: nothing, it is not asked for.
func dangers(pattern settings.Pattern, c settings.Change) (about string) {
	if c.Shadow == settings.True {
		about = "With shadow=true work runs without its lock, at the same time as other work, in programs with AllowOff.\n"
	}
	if strings.Contains(pattern.String(), "*") {
		about += quoted(pattern.String()) + " may be for more than one policy.\n"
	}
	return about
}

// takenAway says what is set when Redis's clock shows clock and would be no more, where a change stands in the place of text; empty: nothing.
func takenAway(pattern settings.Pattern, text string, clock int64, c settings.Change) string {
	entry, err := settings.Parse(text)
	now := shownOf(pattern.String(), text, clock)
	if err != nil || now.Over || c.Covers(entry.Change) { // what nobody can read is not taken away from anybody
		return ""
	}
	return fmt.Sprintf("This takes away %s.\n", now.words())
}

// entryOf reads the arguments of set.
func entryOf(args []string) (settings.Pattern, settings.Entry, error) {
	var entry settings.Entry
	pattern, err := settings.ParsePattern(args[0])
	if err != nil {
		return pattern, entry, err
	}
	seen := make(map[string]bool)
	for _, arg := range args[1:] {
		name, value, ok := strings.Cut(arg, "=")
		if !ok && name == settings.Off {
			return pattern, entry, settings.ErrOff
		}
		if !ok {
			return pattern, entry, fmt.Errorf("%q is not FIELD=VALUE, such as wait=5s", arg)
		}
		if seen[name] {
			return pattern, entry, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		if err := entry.Change.Set(name, value); err != nil {
			return pattern, entry, err
		}
	}
	return pattern, entry, nil
}

// set writes a setting, whose times are those of Redis's clock, in the place of was, and tells which one was there before. Somebody may have
// thought long about a question: what others have set meanwhile stays.
func set(ctx context.Context, locks *lockmw.Locker, pattern settings.Pattern, was *string, entry settings.Entry, lasts lasting, output string, w io.Writer) error {
	_, clock, err := seam.ReadSettings(ctx, locks)
	if err != nil {
		return failed(err)
	}
	entry.Set = clock
	if lasts > 0 {
		entry.Over = clock + time.Duration(lasts).Microseconds()
	}
	text, err := entry.Format()
	if err != nil {
		return misused("%v", err)
	}
	name := pattern.String()
	had, done, err := seam.Set(ctx, locks, name, was, text)
	switch {
	case err != nil:
		return failed(err)
	case !done:
		return ending{statusUnconfirmed, fmt.Sprintf("not set: somebody has changed %s meanwhile: it was %s, and is %s by now; look again",
			quoted(name), shownOf(name, *was, clock).words(), shownOf(name, had, clock).words())}
	}
	if was != nil {
		had = *was // also where Redis was asked twice, and has seen the new one the second time
	}
	now := shownOf(name, text, clock)
	if had != "" {
		now.Replaces = new(shownOf(name, had, clock))
	}
	if output == "json" {
		return newEncoder(w).Encode(now)
	}
	fmt.Fprintf(w, "set %s to %s%s\n", quoted(name), entry.Change, lasts.phrase())
	if now.Replaces != nil {
		fmt.Fprintf(w, "this replaces %s\n", now.Replaces.words())
	}
	if lasts == 0 {
		fmt.Fprintf(w, "it stays until somebody runs: lockctl policy clear %s\n", quoted(name))
	}
	fmt.Fprintln(w, "a service that it is for counts it in lockmw_settings; one that refuses it says so in its log, its console and lockmw_settings_refused: lockctl does not see it")
	return nil
}

func policyLsCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "ls [SERVICE/]", Short: "List the settings of services that begin with SERVICE/",
		Long: "List the settings whose service/name begins with SERVICE/, the most specific in front. LEFT is for how\n" +
			"much longer one applies; over: its end has come, and it changes nothing any more.\n" +
			"What services have from files is not seen here: their console and the metric lockmw_off tell of it.",
		Example:           "  lockctl policy ls shop/\n  lockctl policy ls -o json | jq -r .pattern",
		Args:              arguments(0, 1, "one SERVICE/ or none"),
		ValidArgsFunction: f.completeSetting(false),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			return listSettings(c.Context(), locks, strings.Join(args, ""), f, c.OutOrStdout())
		},
	}
}

func listSettings(ctx context.Context, locks *lockmw.Locker, prefix string, f *flags, w io.Writer) error {
	texts, clock, err := seam.ReadSettings(ctx, locks)
	if err != nil {
		return failed(err)
	}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(texts)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.SortFunc(names, func(a, b string) int {
		p, err1 := settings.ParsePattern(a)
		q, err2 := settings.ParsePattern(b)
		switch {
		case err1 == nil && err2 == nil:
			return settings.Compare(p, q)
		case err1 == nil:
			return -1
		case err2 == nil:
			return 1
		}
		return strings.Compare(a, b)
	})
	if len(names) == 0 {
		what := "nothing is set in Redis"
		if prefix != "" {
			what = "nothing that begins with " + quoted(prefix) + " is set in Redis"
		}
		return ending{statusNothing, what + f.target.where() + "\n" +
			"What services have from files is not seen here: their console and the metric lockmw_off tell of it."}
	}
	if f.output != "json" {
		if _, err := fmt.Fprintf(w, settingColumns, "FOR", "CHANGE", "LEFT", "SINCE", "AUTHOR", "REASON"); err != nil {
			return failed(err)
		}
	}
	for _, name := range names {
		s := shownOf(name, texts[name], clock)
		if f.output == "json" {
			if err := newEncoder(w).Encode(s); err != nil {
				return failed(err)
			}
			continue
		}
		if _, err := io.WriteString(w, s.line()); err != nil {
			return failed(err)
		}
	}
	return nil
}

// A cleared is what clear tells as JSON.
type cleared struct {
	Cleared string `json:"cleared"`
	Was     shown  `json:"was"`
}

func policyClearCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "clear SERVICE/NAME", Short: "Take a setting away",
		Long: "Take a setting away. What is less specific counts then, or else what the program says.\n\n" +
			"Nothing is left of who has cleared it: services log that it applies no more, by whom it was set. To have them\n" +
			"log who ends it, and why, set it once more with --for 1m and a --reason, and clear it then.",
		Args:              arguments(1, 1, "one SERVICE/NAME"),
		ValidArgsFunction: f.completeSetting(false),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			_, clock, err := seam.ReadSettings(c.Context(), locks)
			if err != nil {
				return failed(err)
			}
			had, _, err := seam.Set(c.Context(), locks, args[0], nil, "")
			switch {
			case err != nil:
				return failed(err)
			case had == "":
				return ending{statusNothing, fmt.Sprintf("nothing is set for %s%s", quoted(args[0]), f.target.where())}
			}
			was := shownOf(args[0], had, clock)
			if f.output == "json" {
				return newEncoder(c.OutOrStdout()).Encode(cleared{args[0], was})
			}
			fmt.Fprintf(c.OutOrStdout(), "cleared %s: %s\n", quoted(args[0]), was.words())
			return nil
		},
	}
}

// completeSetting offers a shell what is set, as the first argument, and for set the fields behind it.
func (f *flags) completeSetting(sets bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) (offers []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			if !sets {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, field := range settings.FieldsInRedis() {
				if strings.HasPrefix(field, typed) {
					offers = append(offers, field+"=")
				}
			}
			return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		f.offer(c, func(ctx context.Context, locks *lockmw.Locker) {
			texts, _, _ := seam.ReadSettings(ctx, locks) // none where they cannot be read
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				if strings.HasPrefix(name, typed) && plain(name) && len(offers) < mostCompleted {
					offers = append(offers, name)
				}
			}
		})
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
