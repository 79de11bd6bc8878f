// Package dbtest tests package fence with real databases: PostgreSQL and MariaDB, for which it starts servers of its own, and SQLite. It is a
// module of its own, so that nobody else gets their drivers.
//
// Start reading at stale_test.go, for which the rest is there: writers of all databases and isolation levels, and a Redis that forgets.
// servers_test.go starts the databases, and example_test.go has what docs/fences.md shows.
package dbtest
