// Command bench measures this library and its rivals side by side.
//
// It starts a redis-server of its own and runs each library in processes of
// their own, round after round. `make bench` runs all of it and writes the
// folder results; `make bench ARGS=-quick` takes about a minute. `make bench ARGS=-answers`
// measures what answers of lockmw.Do cost instead, and prints it.
//
// Start at scenario/tables.go for what is measured and at load/turns.go for
// how; library/ has the rivals, goal/ what was promised, report/ the page. answers/ is by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/lockmw/kit/bench/answers"
	"github.com/lockmw/kit/bench/child"
	"github.com/lockmw/kit/bench/report"
	"github.com/lockmw/kit/bench/scenario"
)

func main() {
	child.IfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	only    *regexp.Regexp
	sizes   scenario.Sizes
	kind    string
	out     string
	profile string
	command string // that repeats the run
	answers bool
	cost    answers.Sizes // with answers
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "small sizes: everything in about a minute, and no figures to rely on")
	only := flags.String("only", "", "measure only scenarios whose name matches this `regexp`; a curve's are \"waiters: 100\"")
	rounds := flags.Int("rounds", 0, "how often each is measured (default 3, with -quick 1)")
	window := flags.Duration("d", 0, "how long each measurement takes (default 1s, with -quick 150ms)")
	flags.BoolVar(&o.answers, "answers", false, "instead: what answers of lockmw.Do cost, beside a lock and a plain GET (7 rounds, with -quick 1)")
	flags.StringVar(&o.out, "out", "results", "`folder` for the report")
	flags.StringVar(&o.profile, "cpuprofile", "", "`folder` for a CPU profile of each measurement's client")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("no arguments are expected: %q", flags.Args())
	}
	o.sizes, o.cost = scenario.Full(), answers.Full()
	if *quick {
		o.sizes, o.cost = scenario.Quick(), answers.Quick()
		o.kind = "A quick run with small sizes: it shows that everything works, its figures are good for nothing else."
	}
	if *rounds > 0 {
		o.sizes.Rounds, o.cost.Rounds = *rounds, *rounds
	}
	if *window > 0 {
		o.sizes.Window, o.cost.Window = *window, *window
	}
	if full := scenario.Full(); o.kind == "" && (o.sizes.Rounds < full.Rounds || o.sizes.Window < full.Window) {
		o.kind = "A short run, with fewer rounds or shorter ones than a full run has: its figures are rough."
	}
	o.command = command(flags)
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.answers {
		return answers.Run(ctx, o.cost, os.Stdout, func(s string) { fmt.Fprintln(os.Stderr, s) })
	}
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return err
		}
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	b, err := scenario.Open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	start, env := time.Now(), report.ReadEnv(b.Redis)
	rows, err := b.Rounds(ctx, scenario.All(o.sizes), o.only, o.profile, func(s string) { fmt.Println(s) })
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("no scenario matches %q", o.only)
	}
	r := report.Report{Env: env, Command: o.command, Kind: o.kind, Rows: rows}
	if err := r.Write(o.out); err != nil {
		return err
	}
	fmt.Printf("%s is written, after %v\n", filepath.Join(o.out, "RESULTS.md"), time.Since(start).Round(time.Second))
	return nil
}

// command returns how to repeat the run, but for folders that are not bench's.
func command(flags *flag.FlagSet) string {
	var args []string
	flags.Visit(func(f *flag.Flag) {
		if folder := f.Name == "out" || f.Name == "cpuprofile"; !folder || filepath.IsLocal(f.Value.String()) {
			args = append(args, quoted("-"+f.Name+"="+f.Value.String()))
		}
	})
	if len(args) == 0 {
		return "make bench"
	}
	return fmt.Sprintf("make bench ARGS='%s'", strings.ReplaceAll(strings.Join(args, " "), "'", `'\''`))
}

// plain matches what neither make nor a shell changes.
var plain = regexp.MustCompile(`^[\w.,:/=+-]*$`)

// quoted returns an argument as it stands in ARGS: make passes it to a shell.
func quoted(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$$`).Replace(arg) + `"`
}
