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
	var lasts time.Duration
	var by operator
	c := &cobra.Command{
		Use:   "set SERVICE/NAME FIELD=VALUE...",
		Short: "Change policies while services run",
		Long: "Change policies while services run, in the place of what is set for the same service/name.\n\n" +
			"  wait     for how long a call waits, in the place of Wait and Retries; none is one attempt\n" +
			"  maxHold  after how long work is told to stop; none is no cap\n" +
			"  ttl      how long Redis keeps a lock without a renewal: raised, or lowered to 5s at least\n" +
			"  shadow   true: the lock is only tried, and locks nobody out, in programs with AllowOff; false: it is taken\n\n" +
			"A service whose policy the change does not fit leaves that policy as it is, and says so in its log\n" +
			"and its console. Without --for the setting stays until 'lockctl policy clear'.",
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
			case c.Flags().Changed("for") && lasts < time.Second:
				return misused("--for is %v; at least 1s is needed", lasts)
			}
			who := by.intervention()
			entry.Author, entry.Reason = who.Author, who.Reason
			if _, err := entry.Format(); err != nil { // before Redis is asked
				return misused("%v", err)
			}
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			return set(c.Context(), locks, pattern, entry, lasts, f.output, c.OutOrStdout())
		},
	}
	c.Flags().DurationVar(&lasts, "for", 0, "for how long, such as 1h")
	_ = c.RegisterFlagCompletionFunc("for", cobra.NoFileCompletions) // the flag is there
	by.add(c)
	return c
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

// set writes a setting, whose times are those of Redis's clock.
func set(ctx context.Context, locks *lockmw.Locker, pattern settings.Pattern, entry settings.Entry, lasts time.Duration, output string, w io.Writer) error {
	_, clock, err := seam.ReadSettings(ctx, locks)
	if err != nil {
		return failed(err)
	}
	entry.Set = clock
	if lasts > 0 {
		entry.Over = clock + lasts.Microseconds()
	}
	text, err := entry.Format()
	if err != nil {
		return misused("%v", err)
	}
	if _, err := seam.Set(ctx, locks, pattern.String(), text); err != nil {
		return failed(err)
	}
	if output == "json" {
		return newEncoder(w).Encode(shownOf(pattern.String(), text, clock))
	}
	until := ""
	if lasts > 0 {
		until = " for " + lasts.String()
	}
	fmt.Fprintf(w, "set %s to %s%s\n", quoted(pattern.String()), entry.Change, until)
	return nil
}

// A shown is a setting as it is listed.
type shown struct {
	Pattern string     `json:"pattern"`
	Change  string     `json:"change,omitzero"`
	Author  string     `json:"author,omitzero"`
	Reason  string     `json:"reason,omitzero"`
	Since   *time.Time `json:"since,omitzero"`
	Until   *time.Time `json:"until,omitzero"`
	Left    string     `json:"left,omitzero"`
	Over    bool       `json:"over,omitzero"`  // its end has come
	Error   string     `json:"error,omitzero"` // why no service reads it
}

// shownOf describes what is set under a pattern when Redis's clock showed clock.
func shownOf(pattern, text string, clock int64) shown {
	s := shown{Pattern: pattern}
	entry, err := settings.Parse(text)
	if err == nil {
		_, err = settings.ParsePattern(pattern)
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Change, s.Author, s.Reason = entry.Change.String(), entry.Author, entry.Reason
	if entry.Set != 0 {
		s.Since = new(time.UnixMicro(entry.Set))
	}
	if left, ends := entry.Left(time.Time{}, clock); ends {
		s.Until, s.Over = new(time.UnixMicro(entry.Over)), left <= 0
		if left > 0 {
			s.Left = short(left)
		}
	}
	return s
}

const settingColumns = "%-24s %-28s %-8s %-20s %-20s %s\n"

func policyLsCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "ls [SERVICE/]", Short: "List the settings of services that begin with SERVICE/",
		Long: "List the settings whose service/name begins with SERVICE/, the most specific in front. LEFT is for how\n" +
			"much longer one applies; over: its end has come, and it changes nothing any more.",
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
		return ending{statusNothing, "there are no settings" + f.target.where()}
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

// line is a setting as a line of the table.
func (s shown) line() string {
	change, left, since := s.Change, "-", "-"
	switch {
	case s.Error != "":
		change = "cannot be read: " + s.Error
	case s.Over:
		left = "over"
	case s.Left != "":
		left = s.Left
	}
	if s.Since != nil {
		since = s.Since.Local().Format(time.DateTime)
	}
	text := fmt.Sprintf(settingColumns, quoted(s.Pattern), printable(change), left, since, printable(s.Author), printable(s.Reason))
	return strings.TrimRight(text, " \n") + "\n"
}

func policyClearCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "clear SERVICE/NAME", Short: "Take a setting away",
		Long:              "Take a setting away. What is less specific counts then, or else what the program says.",
		Args:              arguments(1, 1, "one SERVICE/NAME"),
		ValidArgsFunction: f.completeSetting(false),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			existed, err := seam.Set(c.Context(), locks, args[0], "")
			switch {
			case err != nil:
				return failed(err)
			case !existed:
				return ending{statusNothing, fmt.Sprintf("nothing is set for %s%s", quoted(args[0]), f.target.where())}
			case f.output == "json":
				return newEncoder(c.OutOrStdout()).Encode(map[string]string{"cleared": args[0]})
			}
			fmt.Fprintf(c.OutOrStdout(), "cleared %s\n", quoted(args[0]))
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
			for _, field := range settings.Fields() {
				if field != settings.Off && strings.HasPrefix(field, typed) {
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
