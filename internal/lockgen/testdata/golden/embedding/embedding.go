// Package embedding has interfaces made of others.
package embedding

import (
	"context"
	"io"
)

type Reader interface {
	//lockmw:lock {id} prefix=doc: mode=shared
	Read(ctx context.Context, id string) (string, error)
}

type Store[K ~string] interface {
	//lockmw:lock {id} prefix=doc:
	Write(ctx context.Context, id K, text string) error
}

// DocID is an argument for Store.
type DocID string

// Docs keeps the keys of what it embeds.
type Docs interface {
	Reader
	Store[DocID]
	io.Closer
	//lockmw:lock {from} {to} prefix=doc:
	Copy(ctx context.Context, from, to DocID) error
}
