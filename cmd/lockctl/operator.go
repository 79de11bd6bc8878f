package main

import (
	"os"
	"os/user"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// An operator is who runs a command that changes something, and why.
type operator struct{ author, reason string }

// add adds its flags.
func (o *operator) add(c *cobra.Command) {
	c.Flags().StringVar(&o.reason, "reason", "", "why, for logs and events, such as the number of an incident; at most 256 bytes")
	c.Flags().StringVar(&o.author, "author", "", "who, for logs and events; the default is $USER@host")
	for _, flag := range []string{"reason", "author"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // the flags are there
	}
}

func (o *operator) intervention() lockmw.Intervention {
	author := o.author
	if author == "" {
		author = whoami()
	}
	return lockmw.Intervention{Author: author, Reason: o.reason}
}

// longestName is how much of each part of $USER@host is told: together they are less than an author may be long.
const longestName = 60

// whoami is $USER@host, without what cannot be printed, and as far as it is known.
func whoami() string {
	name := os.Getenv("USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, _ := os.Hostname() // empty: not known
	return plainName(name) + "@" + plainName(host)
}

func plainName(name string) string {
	name = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name), "")
	return strings.ToValidUTF8(name[:min(len(name), longestName)], "")
}
