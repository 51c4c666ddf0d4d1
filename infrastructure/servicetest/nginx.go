package servicetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Nginx starts nginx, which ends with the test, and returns its URL. configure makes the
// configuration, by which it listens at the address, host:port, and writes into the
// directory alone.
func Nginx(t testing.TB, configure func(address, dir string) string) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; exec.Command(path, "-v").Run() != nil {
			Missing(t, "there is no nginx in PATH or /usr/sbin")
		}
	}
	dir, address := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(configure(address, dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	directives := "daemon off;"
	if os.Getuid() == 0 {
		directives += " user root;" // nobody else may enter the directory of the test
	}
	proxy := exec.Command(path, "-p", dir, "-c", file, "-e", log.Name(), "-g", directives)
	proxy.Stdout, proxy.Stderr = log, log
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		proxy.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		proxy.Process.Signal(os.Interrupt) // and so its workers too
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			proxy.Process.Kill()
			t.Error("nginx does not end")
		}
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("nginx says:\n%s", said)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("nginx does not come up: %v\n%s", err, said)
		}
	}
}
