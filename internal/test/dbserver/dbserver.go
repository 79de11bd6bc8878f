// Package dbserver starts the database servers of tests: PostgreSQL and MariaDB. It knows database/sql alone. Whoever opens one of them imports its
// driver: github.com/jackc/pgx/v5/stdlib for PostgreSQL, github.com/go-sql-driver/mysql for MariaDB.
//
// A server is started when the first test opens it, with data of its own, which are gone when it is stopped. It listens on a socket in a folder of
// its own, so it takes no port, and no server that is installed as a service is touched. scripts/ensure.sh installs the programs.
package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/process"
)

// within is how long a server may take to start, on a machine that is busy.
const within = time.Minute

// A Server is a database server. Its methods may be called concurrently, but for Stop, which is the last.
type Server struct {
	name   string
	driver string
	start  func(s *Server) error
	source func(folder, options string) string

	once   sync.Once
	err    error // why it was not started
	folder string
	log    strings.Builder // what its programs have written, to be read when they have ended
	proc   *process.Process
}

// Postgres returns a PostgreSQL, which is opened with the driver "pgx".
func Postgres() *Server {
	return &Server{
		name: "PostgreSQL", driver: "pgx", start: startPostgres,
		source: func(folder, options string) string {
			return fmt.Sprintf("host=%s user=test dbname=postgres %s", folder, options)
		},
	}
}

func startPostgres(s *Server) error {
	data := filepath.Join(s.folder, "data")
	initdb, err := program("initdb", "postgres", "/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin")
	if err != nil {
		return err
	}
	// By root it does not run.
	as, err := ordinaryUser(s.folder, "postgres", "nobody")
	if err != nil {
		return err
	}
	if err := s.run(as, initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"); err != nil {
		return err
	}
	return s.spawn(as, syscall.SIGQUIT, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", s.folder, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "log_min_messages=fatal", "-c", "max_connections=200", "-c", "deadlock_timeout=200ms")
}

// MariaDB returns a MariaDB, which is opened with the driver "mysql".
func MariaDB() *Server {
	return &Server{
		name: "MariaDB", driver: "mysql", start: startMariaDB,
		source: func(folder, options string) string {
			return fmt.Sprintf("root@unix(%s)/test?%s", filepath.Join(folder, "socket"), options)
		},
	}
}

func startMariaDB(s *Server) error {
	mariadbd, err := program("mariadbd", "mariadb", "/usr/sbin")
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	data := filepath.Join(s.folder, "data")
	if err := os.MkdirAll(filepath.Join(data, "test"), 0o700); err != nil { // a database is a folder
		return err
	}
	return s.spawn(new(syscall.SysProcAttr), syscall.SIGKILL, mariadbd, "--no-defaults", "--user="+me.Username, "--skip-grant-tables", "--skip-networking",
		"--datadir="+data, "--socket="+filepath.Join(s.folder, "socket"), "--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite",
		"--innodb-buffer-pool-size=32M", "--max-connections=300")
}

// Main runs the tests of a package that share servers, stops these, and exits. A package of which one test alone uses a server has that test stop it.
func Main(m *testing.M, servers ...*Server) {
	code := m.Run()
	for _, s := range servers {
		s.Stop(code != 0)
	}
	os.Exit(code)
}

// Source returns what the driver of the server opens it by, with options of the driver.
func (s *Server) Source(tb testing.TB, options string) string {
	tb.Helper()
	if err := s.started(); err != nil {
		tb.Fatal(err)
	}
	return s.source(s.folder, options)
}

// Open returns a connection pool to the server, with options of its driver. It is closed when the test ends.
func (s *Server) Open(tb testing.TB, options string) *sql.DB {
	tb.Helper()
	source := s.Source(tb, options)
	db, err := sql.Open(s.driver, source)
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxIdleConns(100)
	tb.Cleanup(func() { db.Close() })
	return db
}

// started starts the server, unless it was started before.
func (s *Server) started() error {
	s.once.Do(func() {
		if s.folder, s.err = os.MkdirTemp("", "dbserver-"); s.err != nil { // it outlives the test, and its path has to be short: a socket's name is
			return
		}
		if s.err = s.start(s); s.err == nil {
			return
		}
		if s.proc != nil {
			s.proc.End() // it writes no more
		}
		s.err = fmt.Errorf("dbserver: %s was not started: %w; it wrote:\n%s", s.name, s.err, &s.log)
	})
	return s.err
}

// Stop ends the server at once. What it has stored is thrown away; what it has logged is printed if a test has failed. A server that was never opened
// was never started, and is stopped all the same.
func (s *Server) Stop(failed bool) {
	if s.proc != nil {
		s.proc.End()
		if failed {
			fmt.Fprintf(os.Stderr, "%s wrote:\n%s", s.name, &s.log)
		}
	}
	if s.folder == "" {
		return
	}
	if err := os.RemoveAll(s.folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "dbserver:", err)
	}
}

// program finds one in the PATH, or in the last of the folders that has it.
func program(name, packaged string, folders ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.EvalSymlinks(path) // it looks for others beside itself
	}
	for _, folder := range slices.Backward(folders) {
		found, _ := filepath.Glob(filepath.Join(folder, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%w; scripts/ensure.sh %s installs it", err, packaged)
}

// command is one whose output goes into the server's log.
func (s *Server) command(as *syscall.SysProcAttr, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.folder, as, &s.log, &s.log
	return cmd
}

func (s *Server) run(as *syscall.SysProcAttr, name string, args ...string) error {
	return s.command(as, name, args...).Run()
}

// spawn starts the server, and waits until it answers. PostgreSQL leaves memory in the system if it is killed.
func (s *Server) spawn(as *syscall.SysProcAttr, end syscall.Signal, name string, args ...string) (err error) {
	s.proc, err = process.Start(s.command(as, name, args...), end)
	if err != nil {
		return err
	}
	db, err := sql.Open(s.driver, s.source(s.folder, ""))
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		err := db.PingContext(context.Background())
		if err == nil {
			return nil
		}
		if time.Since(began) > within {
			return err
		}
		select {
		case <-s.proc.Gone:
			return errors.Join(fmt.Errorf("%s has ended by itself", name), s.proc.Err(), err)
		case <-tick.C:
		}
	}
}
