// Package dbtest tests package fence with real databases: PostgreSQL and MariaDB, of which it has servers of its own (internal/test/dbserver), and
// SQLite. It is a module of its own, so that nobody else gets their drivers.
//
// Start reading at stale_test.go, for which the rest is there: writers of all databases and isolation levels, and a Redis that forgets.
// servers_test.go has the servers, databases_test.go how each database is opened, and example_test.go what docs/fences.md shows.
package dbtest
