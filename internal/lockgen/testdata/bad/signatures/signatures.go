// Package signatures has methods that cannot run under a lock.
package signatures

import (
	"context"
	"database/sql"
	"io"
	"iter"
	"net/http"
	"os"
)

type Signatures interface {
	//lockmw:lock {id}
	A1(id string) error // want 2: A1 has no context.Context: the work could not be told that its lock is lost; make it the first parameter
	//lockmw:lock {id}
	A2(ctx context.Context, id string) // want 2: A2 has no error as its last result: a call that gets no lock could not say so
	//lockmw:lock {id}
	A3(ctx context.Context, id string) (error, int) // want 2: A3 has no error as its last result: a call that gets no lock could not say so
	//lockmw:lock {id}
	A4(ctx context.Context, id string) (<-chan int, error) // want 2: a result of A4 outlives the lock: <-chan int is a channel, which is read after the lock is given back; return what comes out of it
	//lockmw:lock {id}
	A5(ctx context.Context, id string) (iter.Seq[int], error) // want 2: a result of A5 outlives the lock: iter.Seq[int] is an iterator, which runs after the lock is given back; return a slice
	//lockmw:lock {id}
	A6(ctx context.Context, id string) (func(), error) // want 2: a result of A6 outlives the lock: func() is a function, which runs after the lock is given back; call it in the method
	//lockmw:lock {id}
	A7(ctx context.Context, id string) (*sql.Rows, error) // want 2: a result of A7 outlives the lock: *sql.Rows is read row by row after the lock is given back; read it in the method
	//lockmw:lock {id}
	A8(ctx context.Context, id string) (*http.Response, error) // want 2: a result of A8 outlives the lock: *http.Response has a body, which is read after the lock is given back; read it in the method
	//lockmw:lock {id}
	// want 2: a result of A9 outlives the lock: *os.File is in use until it is closed, after the lock is given back; use it in the method
	// want 2: a result of A9 outlives the lock: io.Reader is read after the lock is given back; read it in the method
	A9(ctx context.Context, id string) (*os.File, io.Reader, error)
	// want 17: the type of id is not known; go vet says why
	//
	//lockmw:lock {id}
	B1(ctx context.Context, id Unknown) error // want 2: the signature of B1 is not known: undefined: Unknown
	//lockmw:lock {id}
	B2(ctx context.Context, id string) (*sql.Row, error) // want 2: a result of B2 outlives the lock: *sql.Row is read after the lock is given back; scan it in the method
}

// want 1: nobody but Go calls init: lock a function that it calls
//
//lockmw:lock {method}
func init() {}

type Number interface { // want 6: Number is a constraint and no interface of values: nothing can be decorated
	~int | ~string
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

type Alias = interface {
	// want 2: Alias is an alias; write type Alias interface { … }
	//
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

type Other = Plain

type Plain struct{}

// want 1: the receiver's type Other is an alias; write the type that it stands for
//
//lockmw:lock {id}
func (Other) Do(ctx context.Context, id string) error { return nil }

// want 1: the type Missing of the receiver is not declared in this build of the package
//
//lockmw:lock {id}
func (Missing) Do(ctx context.Context, id string) error { return nil }
