// Explore looks at all states of the lock protocol, size by size, and prints what was found as a table: see docs/model.md.
//
//	go run ./model/explore [-most STATES] [NAME …]
//
// NAME is the name of a size, or a part of the names of sizes to look at. All are looked at without one, but for the largest: each of them takes
// hours, so it has to be asked for by its whole name. It ends with 1 if a property does not hold, and prints the shortest way there.
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
func sizes(names []string) (all []model.Size) {
	usual := slices.Concat(model.Smallest, model.Larger)
	if len(names) == 0 {
		return usual
	}
	every := slices.Concat(usual, model.Largest)
	for _, name := range names {
		is := func(z model.Size) bool { return z.Name == name }
		if at := slices.IndexFunc(every, is); at >= 0 {
			all = append(all, every[at])
			continue
		}
		for _, z := range usual {
			if strings.Contains(z.Name, name) {
				all = append(all, z)
			}
		}
	}
	return all
}
