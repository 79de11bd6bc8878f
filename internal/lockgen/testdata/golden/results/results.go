// Package results has from one to many results, of all kinds that may leave a lock.
package results

import (
	"bytes"
	"context"
	"time"
)

type Page struct{ Next int }

type Results interface {
	//lockmw:lock {id}
	One(ctx context.Context, id int) error
	//lockmw:lock {id}
	Two(ctx context.Context, id int) (bytes.Buffer, error)
	//lockmw:lock {id}
	Five(ctx context.Context, id int) (a []string, b map[string]*Page, c time.Time, d any, err error)
	//lockmw:lock {id}
	Page(ctx context.Context, id int) (*Page, error)
	//lockmw:lock {id}
	Named(ctx context.Context, id int) (ctx2 int, id2 string, _ error)
}
