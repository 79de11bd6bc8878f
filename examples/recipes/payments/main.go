// Command payments pays and refunds orders in PostgreSQL, under locks in Redis. It stays right when Redis forgets a lock, because
// PostgreSQL then refuses whoever comes too late.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// perOrder is for whatever changes an order.
var perOrder = lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second, MaxHold: 10 * time.Second}

// schema belongs into a migration, together with fence.Postgres.Schema().
const schema = `
CREATE TABLE IF NOT EXISTS accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, account BIGINT NOT NULL, amount BIGINT NOT NULL, paid BOOL NOT NULL DEFAULT false);
CREATE TABLE IF NOT EXISTS bookings (number BIGSERIAL PRIMARY KEY, order_id BIGINT NOT NULL, amount BIGINT NOT NULL, fence BIGINT NOT NULL);
INSERT INTO accounts VALUES (1, 1000) ON CONFLICT DO NOTHING; -- to try it
INSERT INTO orders VALUES (7, 1, 50) ON CONFLICT DO NOTHING;`

// A till books payments and refunds.
type till struct {
	db      *sql.DB
	approve func(ctx context.Context, order int) error // asks another service, which takes its time: no transaction is open meanwhile
}

var (
	errUnchanged = errors.New("nothing is left to do") // the order is paid, or refunded, already, or there is no such order
	errUnknown   = errors.New("the commit has failed") // the booking is made, or it is not
)

// book pays an order, or refunds it, under the lock of ctx.
func (t till) book(ctx context.Context, order int, paid bool) error {
	if err := t.approve(ctx, order); err != nil {
		return err
	}
	lease, _ := lockmw.FromContext(ctx) // without one, Guard returns an error
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fence.Postgres.Guard(ctx, tx, lease); err != nil { // the first statement: what is read before it may be out of date
		return err
	}
	var account, amount int64
	err = tx.QueryRowContext(ctx, `UPDATE orders SET paid = $2 WHERE id = $1 AND paid <> $2
		RETURNING account, CASE WHEN paid THEN amount ELSE -amount END`, order, paid).Scan(&account, &amount)
	if errors.Is(err, sql.ErrNoRows) {
		return errUnchanged // Guard orders writes; that each is made once is for this condition
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $2 WHERE id = $1", account, amount); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO bookings (order_id, amount, fence) VALUES ($1, $2, $3)", order, amount, lease.Fence()); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return errors.Join(errUnknown, err)
	}
	return nil
}

// routes returns the service. book is till.book.
func routes(locks *lockmw.Locker, book func(ctx context.Context, order int, paid bool) error) http.Handler {
	change := func(paid bool) gin.HandlerFunc {
		return func(c *gin.Context) {
			order, err := strconv.Atoi(c.Param("id"))
			if err != nil {
				c.String(http.StatusBadRequest, "that is no order\n")
				return
			}
			answer(c, book(c.Request.Context(), order, paid)) // the lease's context, and not c
		}
	}
	lock := ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), perOrder)
	r := gin.New()
	r.POST("/orders/:id/pay", lock, change(true))
	r.POST("/orders/:id/refund", lock, change(false))
	return r
}

// answer tells the client what has become of its request. The texts of errors name locks, so they are for the log.
func answer(c *gin.Context, err error) {
	if err != nil && !errors.Is(err, errUnchanged) {
		err = errors.Join(err, context.Cause(c.Request.Context())) // a statement that fails because the lock is lost does not say so
		c.Header("Retry-After", "1")                               // seconds
	}
	switch {
	case err == nil:
		c.String(http.StatusCreated, "booked\n")
	case errors.Is(err, errUnchanged):
		c.String(http.StatusConflict, "nothing is left to do\n")
	case errors.Is(err, errUnknown):
		slog.Error("it is not known whether a booking was made", "order", c.Param("id"), "error", err)
		c.String(http.StatusServiceUnavailable, "this may be booked or not: ask again\n")
	case errors.Is(err, fence.ErrStale), errors.Is(err, lockmw.ErrLost), errors.Is(err, lockmw.ErrMaxHold):
		c.String(http.StatusConflict, "not booked, another request may have come between: ask again\n")
	default:
		slog.Error("a booking has failed", "order", c.Param("id"), "error", err)
		c.String(http.StatusServiceUnavailable, "not booked: ask again\n")
	}
}

func main() {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(context.Background(), fence.Postgres.Schema()+schema); err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, till{db, approve}.book)))
}

// approve stands for your question to another service, such as one that looks for fraud.
func approve(ctx context.Context, _ int) error {
	select {
	case <-time.After(200 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
