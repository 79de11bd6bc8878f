package worker

import (
	"context"
	"fmt"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/fenced"
)

// A store takes writes beside the lock, and refuses those that come too late.
type store interface {
	write(hold engines.Hold, key string) (fenced.Answer, error)
	Close() error
}

// openStore opens the store of a worker; nil if it has none.
func openStore(c Config) (store, error) {
	switch {
	case c.SQL != "":
		d, err := fenced.OpenDatabase(c.SQL)
		return inDatabase{d}, err
	case c.Fenced != "":
		client, err := fenced.Dial(c.Fenced)
		return byNumber{client}, err
	}
	return nil, nil
}

// byNumber is a store that compares fences.
type byNumber struct{ *fenced.Client }

func (s byNumber) write(hold engines.Hold, key string) (fenced.Answer, error) {
	return s.Write(key, hold.Fence())
}

// inDatabase is a store in PostgreSQL.
type inDatabase struct{ *fenced.Database }

func (s inDatabase) write(hold engines.Hold, key string) (fenced.Answer, error) {
	lease, ok := hold.(*lockmw.Lease)
	if !ok {
		return fenced.Answer{}, fmt.Errorf("worker: a %T cannot be guarded", hold)
	}
	return s.Write(context.Background(), lease, key)
}
