package main

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// inFlags has what the library tells programmers in the words of the command line.
var inFlags = strings.NewReplacer(
	"lockmw: invalid policy: Intervention.Reason", "--reason",
	"lockmw: invalid policy: Intervention.Author", "--author",
	"lockmw: ", "",
	"use redis.NewClient", "leave out --cluster",
	"redis.NewClusterClient", "--cluster",
	"redis.NewFailoverClient without ReplicaOnly", "--sentinel NAME",
	"redis.NewFailoverClient", "--sentinel NAME",
	"WithNamespace", "--namespace",
	"the server wants a password", "the server wants a password: put it into REDIS_URL, as in redis://user:password@host:6379/0",
	"mend them where the client has them from", "mend them in --redis or REDIS_URL",
)

// said is what a person is told of an error: its cause, without the names of the library's
// functions, and what to do if it has not said so itself.
func said(err error) string {
	text := err.Error()
	if errors.Is(err, lockmw.ErrUnavailable) {
		if _, cause, ok := strings.Cut(text, lockmw.ErrUnavailable.Error()+": "); ok {
			text = cause
		}
	}
	text = inFlags.Replace(text)
	var unknown *net.DNSError
	var slow interface{ Timeout() bool }
	var issuer x509.UnknownAuthorityError
	var named x509.HostnameError
	switch {
	case errors.As(err, &issuer):
		return text + ": if the authority is your own, --tls-ca FILE has to name its certificate"
	case errors.As(err, &named):
		return text + ": is --redis or REDIS_URL right? If so, say which name the certificate has: --tls-name NAME"
	case refusesUs(err):
		return text + ": the server does not take the certificate of its client; it wants one that it trusts, that has not expired and that is for clients, with those between it and the authority in the same file: --tls-cert FILE --tls-key FILE"
	case strings.Contains(err.Error(), "remote error: tls: handshake failure"):
		return text + ": does the server want a certificate of its clients? --tls-cert FILE --tls-key FILE"
	case errors.Is(err, syscall.ECONNREFUSED):
		return text + ": nobody listens there; is Redis running, and is --redis or REDIS_URL right?"
	case errors.As(err, &unknown):
		return text + ": nobody knows that host; is --redis or REDIS_URL right?"
	case errors.As(err, &slow) && slow.Timeout():
		return text + ": there is no answer; is the address right, and does a firewall let the connection through?"
	}
	return text
}

// refusesUs reports whether a server has refused the certificate of its client, or that there is none. crypto/tls has
// no type for what the other side says: it has these texts for what RFC 8446, 6.2, lists.
func refusesUs(err error) bool {
	_, says, remote := strings.Cut(err.Error(), "remote error: tls: ")
	return remote && strings.Contains(says, "certificate")
}

// arguments checks how many arguments a command was given, and says what they are.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return misused("%s takes %s; given were %d", c.Name(), what, n)
		}
		return nil
	}
}
