package servicetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// PgBouncer starts a proxy that pools transactions in front of the server, with
// fewer connections than a store has, and returns the DSN through it. Parameters
// that clients set when they connect, search_path among them, have no effect.
func (s *PostgresServer) PgBouncer(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path = "/usr/sbin/pgbouncer"; exec.Command(path, "--version").Run() != nil {
			Missing(t, "there is no pgbouncer in PATH or /usr/sbin")
		}
	}
	port := freePort(t)
	config := filepath.Join(s.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = extra_float_digits
`, s.Port, port), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.as != nil { // it does not run as root either
		if err := os.Chown(config, int(s.as.Credential.Uid), int(s.as.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.CreateTemp(s.dir, "pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	proxy := exec.Command(path, config)
	proxy.SysProcAttr, proxy.Dir, proxy.Stdout, proxy.Stderr = s.as, s.dir, log, log
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Process.Kill()
		proxy.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("pgbouncer does not come up: %v\n%s", err, said)
		}
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}
