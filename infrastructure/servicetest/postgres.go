package servicetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres names the database for tests; RATELIMITLOG_TEST_POSTGRES names another.
const postgres = "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"

// Postgres returns the DSN of an empty schema, which is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	dsn := cmp.Or(os.Getenv("RATELIMITLOG_TEST_POSTGRES"), postgres)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		Missing(t, "there is no PostgreSQL to test with: %v", err)
	}
	defer conn.Close(ctx)
	schema := fmt.Sprintf("test_%016x", rand.Uint64())
	if _, err := conn.Exec(ctx, `CREATE SCHEMA `+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			defer conn.Close(ctx)
			_, err = conn.Exec(ctx, `DROP SCHEMA `+schema+` CASCADE`)
		}
		if err != nil {
			t.Errorf("drop the schema of the test: %v", err)
		}
	})
	return With(t, dsn, "search_path", schema)
}

// With adds a parameter to a DSN.
func With(t testing.TB, dsn, name, value string) string {
	t.Helper()
	at, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := at.Query()
	query.Set(name, value)
	at.RawQuery = query.Encode()
	return at.String()
}

// PostgresServer is a PostgreSQL of the test's own, which listens on 127.0.0.1 and
// has no durability to speak of.
type PostgresServer struct {
	Port    int
	t       testing.TB
	bin     string
	dir     string
	as      *syscall.SysProcAttr
	process *exec.Cmd // nil while it is down
	ended   chan struct{}
}

// NewPostgresServer makes a server that is not running yet.
func NewPostgresServer(t testing.TB) *PostgresServer {
	t.Helper()
	s := &PostgresServer{t: t, bin: postgresBin()}
	if s.bin == "" {
		Missing(t, "initdb and postgres are neither in PATH nor in /usr/lib/postgresql")
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "ratelimitlog-postgres-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.dir)
	})
	if os.Getuid() == 0 { // which PostgreSQL refuses to run as
		s.runAsSomebody()
	}
	s.Port = freePort(t)
	initdb := s.command("initdb", "-D", filepath.Join(s.dir, "data"), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	return s
}

func postgresBin() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(dirs)
	slices.Reverse(dirs)
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append([]string{filepath.Dir(path)}, dirs...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir
		}
	}
	return ""
}

func (s *PostgresServer) runAsSomebody() {
	for _, name := range []string{"postgres", "nobody"} {
		somebody, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(somebody.Uid)
		gid, _ := strconv.Atoi(somebody.Gid)
		if err := os.Chown(s.dir, uid, gid); err != nil {
			continue
		}
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return
	}
	Missing(s.t, "the test runs as root, and there is no user postgres or nobody to run PostgreSQL as")
}

func freePort(t testing.TB) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func (s *PostgresServer) command(name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.bin, name), args...)
	command.SysProcAttr, command.Dir = s.as, s.dir
	return command
}

// DSN names the server's database.
func (s *PostgresServer) DSN() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.Port)
}

// Start starts the server and waits until it answers.
func (s *PostgresServer) Start() {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, "log-")
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.run(log)
	for deadline := time.Now().Add(30 * time.Second); !s.answers(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			s.t.Fatalf("PostgreSQL does not come up:\n%s", said)
		}
		select {
		case <-s.ended: // what was killed before may still hold its memory: once more
			s.run(log)
		default:
		}
	}
}

func (s *PostgresServer) run(log *os.File) {
	s.t.Helper()
	process := s.command("postgres", "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.Port), "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	s.process, s.ended = process, ended
	go func() {
		process.Wait()
		close(ended)
	}()
}

func (s *PostgresServer) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err == nil {
		conn.Close(ctx)
	}
	return err == nil
}

// Hang stops all processes of the server where they stand; Resume lets them go on.
func (s *PostgresServer) Hang() { s.signal(syscall.SIGSTOP) }

// Resume lets a server go on that hangs.
func (s *PostgresServer) Resume() { s.signal(syscall.SIGCONT) }

// Kill ends the server as a power cut would. It is nothing to a server that is down.
func (s *PostgresServer) Kill() {
	if s.process == nil {
		return
	}
	children := s.signal(syscall.SIGKILL)
	<-s.ended
	s.process = nil
	for deadline := time.Now().Add(10 * time.Second); slices.ContainsFunc(children, alive) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond) // a next server does not start beside them
	}
}

// signal goes to the server first, so that it starts no further process, and then
// to those that it has started, which it returns.
func (s *PostgresServer) signal(signal syscall.Signal) (children []int) {
	pid := s.process.Process.Pid
	children = childrenOf(pid)
	syscall.Kill(pid, signal)
	children = append(children, childrenOf(pid)...)
	for _, child := range children {
		syscall.Kill(child, signal)
	}
	return children
}

func childrenOf(parent int) (children []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if _, its := process(pid); its == parent {
			children = append(children, pid)
		}
	}
	return children
}

func alive(pid int) bool {
	state, _ := process(pid)
	return state != "" && state != "Z"
}

// process is the state of a process and its parent, "" and 0 if there is none.
func process(pid int) (state string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// "pid (name) state parent …"; the name may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}
