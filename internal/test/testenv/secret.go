package testenv

import (
	"context"
	"strings"

	"github.com/lockmw/kit/lockmw"
)

// Words that no client may learn: what the Lockers of an Env are called and what they note of each call, and who has set
// something and why.
const (
	secretInstance = "secretpod"
	secretNote     = "secretnote"
	secretAuthor   = "secretauthor"
	secretReason   = "secretreason"
)

// secretive has a Locker use these words, so that a case of a suite notices an answer that shows one, whatever the case is about.
var secretive = lockmw.Options(
	lockmw.WithInstance(secretInstance),
	lockmw.WithNote(func(context.Context) string { return secretNote }),
)

// Secrets returns, in lower case, what no answer to a client may have in it while the lock of key, given with its prefix, is
// held, or not: the namespace, the words above, and each part of the token that has the lock. An answer with one part shows as
// much of the holder as one with the whole token.
func (r *Env) Secrets(key string) []string {
	all := []string{strings.ToLower(r.Namespace), secretInstance, secretNote, secretAuthor, secretReason}
	token := r.Client.Get(context.Background(), r.RedisKey(key)).Val() // empty where nobody has the lock, or Redis is away
	for part := range strings.SplitSeq(strings.ToLower(token), ".") {
		if part != "" {
			all = append(all, part)
		}
	}
	return all
}
