package dbtest

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"

	"github.com/lockmw/kit/internal/test/dbserver"
)

// The servers, which all tests share.
var (
	postgres = server{dbserver.Postgres()}
	mariadb  = server{dbserver.MariaDB()}
)

func TestMain(m *testing.M) { dbserver.Main(m, postgres.Server, mariadb.Server) }

// A server is a database server, which is started when the first test wants it.
type server struct{ *dbserver.Server }

// open returns a connection pool to the server, with options of its driver.
func (s server) open(t testing.TB, options string) *sql.DB {
	t.Helper()
	return s.Open(t, options)
}

// open returns a connection pool to a database that is no server.
func open(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(100)
	t.Cleanup(func() { db.Close() })
	return db
}
