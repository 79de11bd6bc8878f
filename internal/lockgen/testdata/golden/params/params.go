// Package params has the placeholders that are no paths.
package params

import "context"

type Params interface {
	//lockmw:lock {params}
	One(ctx context.Context, id string) error
	//lockmw:lock {params|lower}:{method}
	Several(ctx context.Context, shop string, sku *string, note string) error
	//lockmw:lock {method}
	Method(ctx context.Context, _ int) error
	//lockmw:lock {method}:x name=m
	Named(ctx context.Context) error
}

//lockmw:lock {method}:{id}
func Func(ctx context.Context, id int) error { return ctx.Err() }
