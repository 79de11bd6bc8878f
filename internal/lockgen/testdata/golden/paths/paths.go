// Package paths has long ways to a value, on which something may be nil.
package paths

import (
	"context"
	"errors"

	"github.com/lockmw/kit/keyfunc"
)

type Base struct {
	ID    string
	inner *Inner
}

type Inner struct{ Deep string }

func (b *Base) Own() string { return b.ID }

type Getter interface{ GetID() string }

type Order struct {
	*Base
	Getter

	Customer *Customer
	Tags     map[string]string
}

type Customer struct{ Name *string }

func (c *Customer) Tenant() (*Tenant, error) {
	if *c.Name == "broken" {
		return nil, errors.New("no tenant")
	}
	return &Tenant{Name: *c.Name}, nil
}

type Tenant struct{ Name string }

func (o *Order) GetCustomer() *Customer { return o.Customer }

type Paths interface {
	//lockmw:lock {o.ID}
	Embedded(ctx context.Context, o Order) error
	//lockmw:lock {o.inner.Deep}
	Deep(ctx context.Context, o *Order) error
	//lockmw:lock {o.Own()}
	Promoted(ctx context.Context, o *Order) error
	//lockmw:lock {o.GetID()}
	Interface(ctx context.Context, o *Order) error
	//lockmw:lock {o.GetCustomer().Name}
	Getter(ctx context.Context, o *Order) error
	//lockmw:lock {o.GetCustomer().Tenant().Name}
	Fails(ctx context.Context, o *Order) error
	//lockmw:lock {name(ctx, o.Customer.Name)}
	Function(ctx context.Context, o *Order) error
	//lockmw:lock {g.GetID()}
	Itself(ctx context.Context, g Getter) error
	//lockmw:lock {who(id).Name}:{id}
	Skips(ctx context.Context, id string) error
	//lockmw:lock {plain(ctx)}
	Plain(ctx context.Context) error
}

func name(_ context.Context, s *string) (*string, error) {
	if s == nil {
		return nil, errors.New("the name is nil")
	}
	return s, nil
}

func who(id string) (*Customer, error) {
	if id == "guest" {
		return nil, keyfunc.Skip
	}
	return &Customer{Name: &id}, nil
}

func plain(context.Context) string { return "plain" }
