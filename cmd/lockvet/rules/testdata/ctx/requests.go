package ctx

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
)

// Where a handler gives its request the context of the lock, all is well behind it.

func ofGin(c *gin.Context) error {
	return locks.WithLock(c.Request.Context(), "42", policy, func(lockCtx context.Context) error {
		if err := save(c.Request.Context(), "a"); err != nil { // want `c.Request.Context\(\) does not end when the lock is lost`
			return err
		}
		c.Request = c.Request.WithContext(lockCtx)
		return save(c.Request.Context(), "b")
	})
}

func ofEcho(c echo.Context) error {
	return locks.WithLock(c.Request().Context(), "42", policy, func(lockCtx context.Context) error {
		if err := save(c.Request().Context(), "a"); err != nil { // want `c.Request\(\).Context\(\) does not end when the lock is lost`
			return err
		}
		c.SetRequest(c.Request().WithContext(lockCtx))
		return save(c.Request().Context(), "b")
	})
}

func ofHTTP(r *http.Request) error {
	return locks.WithLock(r.Context(), "42", policy, func(lockCtx context.Context) error {
		r = r.WithContext(lockCtx)
		return save(r.Context(), "a")
	})
}

func inPlace(r *http.Request) error {
	return locks.WithLock(r.Context(), "42", policy, func(lockCtx context.Context) error {
		*r = *r.WithContext(lockCtx)
		return save(r.Context(), "a")
	})
}

func anotherField(r *http.Request) error {
	return locks.WithLock(r.Context(), "42", policy, func(lockCtx context.Context) error {
		r.Body = http.NoBody
		return save(r.Context(), "a") // want `r.Context\(\) does not end when the lock is lost`
	})
}

func putBack(c *gin.Context) error {
	return locks.WithLock(c.Request.Context(), "42", policy, func(lockCtx context.Context) error {
		before := c.Request
		defer func() { c.Request = before }()
		return save(c.Request.Context(), "a") // want `c.Request.Context\(\) does not end when the lock is lost`
	})
}

func acquiredForGin(c *gin.Context) error {
	lockCtx, lease, err := locks.Acquire(c.Request.Context(), "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(lockCtx)
	if err := save(c.Request.Context(), "a"); err != nil { // want `c.Request.Context\(\) does not end when the lock is lost: use lockCtx`
		return err
	}
	c.Request = c.Request.WithContext(lockCtx)
	if err := save(c.Request.Context(), "b"); err != nil {
		return err
	}
	return save(context.Background(), "c") // want `context.Background\(\) does not end when the lock is lost: use lockCtx`
}

func acquiredForHTTP(r *http.Request) error {
	lockCtx, lease, err := locks.Acquire(r.Context(), "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(lockCtx)
	r = r.WithContext(lockCtx)
	return save(r.Context(), "a")
}

// The most usual form.

func sameNameInHandler(r *http.Request) error {
	ctx := r.Context()
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	if err := save(ctx, "a"); err != nil {
		return err
	}
	if err := save(context.Background(), "b"); err != nil { // want `context.Background\(\) does not end when the lock is lost: use ctx`
		return err
	}
	return save(r.Context(), "c") // want `r.Context\(\) does not end when the lock is lost: use ctx`
}

func declared(ctx context.Context) error {
	var lockCtx, lease, err = locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(lockCtx)
	return save(ctx, "a") // want `ctx does not end when the lock is lost: use lockCtx`
}
