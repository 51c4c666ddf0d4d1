package servicetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisAddress is the Redis for tests; RATELIMITLOG_TEST_REDIS names another.
const redisAddress = "127.0.0.1:6379"

// Redis returns a DSN with a prefix of its own. What has the prefix is removed when
// the test ends.
func Redis(t testing.TB) string {
	t.Helper()
	address := cmp.Or(os.Getenv("RATELIMITLOG_TEST_REDIS"), redisAddress)
	client := redis.NewClient(&redis.Options{Addr: address})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		Missing(t, "there is no Redis to test with: %v", err)
	}
	prefix := fmt.Sprintf("ratelimitlog-test-%016x", rand.Uint64())
	t.Cleanup(func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			client.Del(ctx, keys.Val())
		}
		if err := keys.Err(); err != nil {
			t.Errorf("remove what the test left in Redis: %v", err)
		}
	})
	return "redis://" + address + "?prefix=" + prefix
}

// RedisServer is a Redis of the test's own, which listens on 127.0.0.1 and keeps
// nothing.
type RedisServer struct {
	Port    int
	t       testing.TB
	bin     string
	process *exec.Cmd // nil while it is down
}

// NewRedisServer makes a server that is not running yet.
func NewRedisServer(t testing.TB) *RedisServer {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		Missing(t, "redis-server is not in PATH")
	}
	s := &RedisServer{Port: freePort(t), t: t, bin: bin}
	t.Cleanup(s.Kill)
	return s
}

// DSN names the server.
func (s *RedisServer) DSN() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.Port) }

// Start starts the server and waits until it answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	s.process = exec.Command(s.bin, "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.Port), MaxRetries: -1})
	defer client.Close()
	for deadline := time.Now().Add(30 * time.Second); client.Ping(context.Background()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("Redis does not come up")
		}
	}
}

// Hang stops the server where it stands.
func (s *RedisServer) Hang() { s.signal(syscall.SIGSTOP) }

// Resume lets a server go on that hangs.
func (s *RedisServer) Resume() { s.signal(syscall.SIGCONT) }

// Kill ends the server at once, if it runs.
func (s *RedisServer) Kill() {
	if s.process == nil {
		return
	}
	s.process.Process.Kill()
	s.process.Wait()
	s.process = nil
}

func (s *RedisServer) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}
