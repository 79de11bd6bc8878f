// Package places has directives where they lock nothing.
//
// want 1: this directive locks nothing: it goes into the comment directly above a method of an interface, a method of a type, or a function
//
//lockmw:lock {package}
package places

import "context"

// want 1: this directive locks nothing: it stands above the type Orders; it goes into the comment directly above a method of an interface, a method of a type, or a function
//
//lockmw:lock {id}
type Orders interface {
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	//
	// lockmw:lock {id}
	A1(ctx context.Context, id string) error
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	//
	//lockmw: lock {id}
	A2(ctx context.Context, id string) error
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	//
	//lockmw:Lock {id}
	A3(ctx context.Context, id string) error
	// want 2: unknown directive lockmw:locks; the only one is //lockmw:lock KEY… [option=value…]
	//
	//lockmw:locks {id}
	A4(ctx context.Context, id string) error
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	//
	//@DistributedLock(prefix = "pay-", value = "#id")
	A5(ctx context.Context, id string) error
	//lockmw:lock {id}
	// want 2: a second directive for A6: several keys stand in one, and are taken together
	//
	//lockmw:lock {id} prefix=a
	A6(ctx context.Context, id string) error
	// want 43: this directive locks nothing: it stands inside of Orders, and not above a method of its own; it goes into the comment directly above a method of an interface, a method of a type, or a function
	A7(ctx context.Context, id string) error //lockmw:lock {id}
	// want 2: this directive locks nothing: it stands inside of Orders, and not above a method of its own; it goes into the comment directly above a method of an interface, a method of a type, or a function
	//
	//lockmw:lock {id}
	context.Context
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	//
	//lock: key="{id}"
	A8(ctx context.Context, id string) error
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	/*lockmw:lock {id}*/
	A9(ctx context.Context, id string) error
	// want 2: Go takes this line for a comment; a directive is written //lockmw:lock KEY… [option=value…], without a space behind //
	/*
		A10 pays.

		//lockmw:lock {id}
	*/
	A10(ctx context.Context, id string) error
	// want 21: no comment stands behind a directive: write it into a line above
	//
	//lockmw:lock {id} // the order
	A11(ctx context.Context, id string) error
}

type Round (interface {
	// want 19: A12 has no parameter "it"; did you mean "id"?
	//
	//lockmw:lock a:{it}
	A12(ctx context.Context, id string) error
})

type Fields struct {
	// want 2: this directive locks nothing: it stands inside of Fields, and not above a method of its own; it goes into the comment directly above a method of an interface, a method of a type, or a function
	//
	//lockmw:lock {id}
	Do func(ctx context.Context, id string) error
}

// want 1: this directive locks nothing: it goes into the comment directly above a method of an interface, a method of a type, or a function
//
//lockmw:lock {id}
var Var = func(ctx context.Context, id string) error { return nil }

// want 1: this directive locks nothing: it goes into the comment directly above a method of an interface, a method of a type, or a function
//
//lockmw:lock {id}

// Detached has an empty line between the directive and its comment.
func Detached(ctx context.Context, id string) error {
	// want 2: this directive locks nothing: it stands inside of Detached; it goes into the comment directly above a method of an interface, a method of a type, or a function
	//
	//lockmw:lock {id}
	return nil
}
