// Package lists has keys of which there is one for each element.
package lists

import "context"

type SKU string

type Order struct{ SKUs []SKU }

func (o *Order) Numbers() []int64 { return []int64{7, 8} }

type Lists interface {
	//lockmw:lock {skus...} prefix=sku:
	Variadic(ctx context.Context, skus ...SKU) error
	//lockmw:lock {shop}:{ids...}
	Slice(ctx context.Context, shop string, ids []uint16) error
	//lockmw:lock {order.SKUs...}
	Field(ctx context.Context, order *Order) error
	//lockmw:lock {order.Numbers()...}
	Method(ctx context.Context, order *Order) error
	//lockmw:lock {all(ctx, n)...}
	Function(ctx context.Context, n int) error
	//lockmw:lock {ids...}
	Pointers(ctx context.Context, ids [2]*string) error
	//lockmw:lock from:{from...} to:{to...}
	Two(ctx context.Context, from, to []string) error
}

func all(_ context.Context, n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		list[i] = string('a' + rune(i))
	}
	return list, nil
}
