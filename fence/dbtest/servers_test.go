package dbtest

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"

	"github.com/lockmw/kit/internal/test/process"
)

// within is how long a server may take to start, on a machine that is busy.
const within = time.Minute

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range []*server{postgres, mariadb} {
		s.stop(code != 0)
	}
	os.Exit(code)
}

// A server is a database server, which is started when the first test wants it. It listens on a socket in a folder of its own.
type server struct {
	name   string
	driver string
	start  func(s *server) error
	source func(folder, options string) string

	once   sync.Once
	err    error
	folder string
	log    strings.Builder
	proc   *process.Process
}

var postgres = &server{
	name: "PostgreSQL", driver: "pgx",
	source: func(folder, options string) string {
		return fmt.Sprintf("host=%s user=test dbname=postgres %s", folder, options)
	},
	start: func(s *server) error {
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
	},
}

var mariadb = &server{
	name: "MariaDB", driver: "mysql",
	source: func(folder, options string) string {
		return fmt.Sprintf("root@unix(%s)/test?%s", filepath.Join(folder, "socket"), options)
	},
	start: func(s *server) error {
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
	},
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

// ordinaryUser returns what has a process run by the first of the users that there is, if this one runs by root, and gives folder to that one.
func ordinaryUser(folder string, names ...string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return new(syscall.SysProcAttr), nil
	}
	var err error
	for _, name := range names {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return as, os.Chown(folder, uid, gid)
	}
	return nil, err
}

// command is one whose output goes into the server's log.
func (s *server) command(as *syscall.SysProcAttr, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.folder, as, &s.log, &s.log
	return cmd
}

func (s *server) run(as *syscall.SysProcAttr, name string, args ...string) error {
	return s.command(as, name, args...).Run()
}

// spawn starts the server, and waits until it answers. PostgreSQL leaves memory in the system if it is killed.
func (s *server) spawn(as *syscall.SysProcAttr, end syscall.Signal, name string, args ...string) (err error) {
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
			return fmt.Errorf("%s ended: %w", name, s.proc.Err())
		case <-tick.C:
		}
	}
}

// open returns a connection pool to the server, with options of its driver.
func (s *server) open(t testing.TB, options string) *sql.DB {
	t.Helper()
	s.once.Do(func() {
		if s.folder, s.err = os.MkdirTemp("", "dbtest-"); s.err == nil { //nolint:usetesting // it outlives the test, and its path has to be short
			s.err = s.start(s)
		}
	})
	if s.err != nil {
		t.Fatalf("%s: %v; it wrote:\n%s", s.name, s.err, &s.log)
	}
	return open(t, s.driver, s.source(s.folder, options))
}

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

// stop ends the server at once; what it has written is thrown away.
func (s *server) stop(failed bool) {
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
		fmt.Fprintln(os.Stderr, "dbtest:", err)
	}
}
