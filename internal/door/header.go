package door

import (
	"slices"
	"strings"
)

// Replayed is set in the header of an answer that is given again. The name is Stripe's.
const Replayed = "Idempotent-Replayed"

// neverKept are the names that belong to one answer, or to one connection. A cookie is for the one client that it was made for.
var neverKept = []string{
	"connection", "content-length", "date", strings.ToLower(Replayed), "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
	"set-cookie", "te", "trailer", "transfer-encoding", "upgrade",
}

// IsNeverKept reports whether a header of that name, in any case, is no part of an answer that is given again.
func IsNeverKept(name string) bool { return slices.Contains(neverKept, strings.ToLower(name)) }
