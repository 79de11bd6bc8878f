// Explore looks at all states of the lock protocol, size by size, and prints what was found as a table: see docs/model.md.
//
//	go run ./model/explore [-most STATES] [NAME …]
//
// NAME is a part of the names of sizes to look at. Without one all are looked at but the largest, whose whole names are needed, so that no part of one
// begins hours of work. It ends with 1 if a property does not hold,
// and prints the shortest way there.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/proof/model"
)

func main() {
	most := flag.Int("most", 20_000_000, "the most states of one size; what is larger is looked at in part")
	flag.Parse()
	scripts, err := model.Compile(redisstore.Scripts())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	wrong := false
	fmt.Fprintln(os.Stdout, "| size | states | steps | furthest | seconds | |")
	fmt.Fprintln(os.Stdout, "|---|---|---|---|---|---|")
	for _, z := range sizes(flag.Args()) {
		z.Scripts = []model.Scripts{scripts}
		r, err := model.Explore(z, *most, true)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		says := "all"
		switch {
		case r.Wrong != "":
			says, wrong = "**"+r.Wrong+"**", true
		case !r.Full:
			says = "in part"
		}
		fmt.Fprintf(os.Stdout, "| %s | %d | %d | %d | %.1f | %s |\n", z.Name, r.States, r.Steps, r.Depth, r.Took.Seconds(), says)
		if r.Wrong != "" {
			fmt.Fprintln(os.Stdout, strings.Join(r.Trace, "\n"))
		}
	}
	if wrong {
		os.Exit(1)
	}
}

// sizes returns those that are asked for.
func sizes(parts []string) (all []model.Size) {
	for _, z := range slices.Concat(model.Smallest, model.Larger) {
		if len(parts) == 0 || slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(z.Name, part) }) {
			all = append(all, z)
		}
	}
	for _, z := range model.Largest {
		if slices.Contains(parts, z.Name) {
			all = append(all, z)
		}
	}
	return all
}
