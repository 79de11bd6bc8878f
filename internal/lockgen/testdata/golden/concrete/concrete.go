// Package concrete has directives on the methods of types.
package concrete

import (
	"context"
	"sync"
)

// Stock has pointer receivers, and fields in its keys.
type Stock struct {
	sync.Mutex

	Region  string
	Counted map[string]int
}

//lockmw:lock {s.Region}:{sku} prefix=stock: wait=1s
func (s *Stock) Add(ctx context.Context, sku string, n int) (int, error) {
	s.Lock()
	defer s.Unlock()
	s.Counted[sku] += n
	return s.Counted[sku], ctx.Err()
}

// Recount is for all of the stock.
//
//lockmw:lock stock
func (s *Stock) Recount(ctx context.Context) error { return s.recount(ctx) }

//lockmw:lock {s.Region} prefix=region:
func (s Stock2) Move(ctx context.Context) error { return ctx.Err() }

//lockmw:lock {region(s)} prefix=region:
func (s Stock2) Name(ctx context.Context) (string, error) { return s.Region, ctx.Err() }

// Stock2 has value receivers.
type Stock2 struct{ Region string }

func region(s Stock2) string { return s.Region }

// Mixed has both kinds.
type Mixed struct{ ID int }

//lockmw:lock {m.ID}
func (m Mixed) Get(ctx context.Context) error { return ctx.Err() }

//lockmw:lock {mixed(m)}
func (m Mixed) Put(ctx context.Context) error { return ctx.Err() }

func (m *Mixed) Set(id int) { m.ID = id }

func mixed(m Mixed) int { return m.ID }

// Without a directive and not exported: it is left out.
func (s *Stock) recount(ctx context.Context) error { return ctx.Err() }

// Shop has the methods of Stock, with their locks.
type Shop struct {
	*Stock

	Name string
}

//lockmw:lock {s.Name} prefix=shop:
func (s *Shop) Open(ctx context.Context) error { return ctx.Err() }

// Mall embeds values and pointers of types with both kinds of receivers.
type Mall struct {
	*Mixed
	Cafe

	Owner string
}

type Cafe struct{ Tables int }

//lockmw:lock {tables(c)}:{c.Tables} prefix=cafe:
func (c *Cafe) Seat(ctx context.Context) error { return ctx.Err() }

func tables(c *Cafe) int { return c.Tables }

//lockmw:lock {m.Owner} prefix=mall:
func (m *Mall) Close(ctx context.Context) error { return ctx.Err() }

// Cache has other names for its type parameters in its methods.
type Cache[K ~string, V any] struct{ Values map[K]V }

//lockmw:lock {key} prefix=cache:
func (c *Cache[A, B]) Put(ctx context.Context, key A, value B) (B, error) {
	c.Values[key] = value
	return value, ctx.Err()
}

// Hook is a type that is no struct.
type Hook func(ctx context.Context, id string) error

//lockmw:lock {id} prefix=hook:
func (h Hook) Call(ctx context.Context, id string) error { return h(ctx, id) }
