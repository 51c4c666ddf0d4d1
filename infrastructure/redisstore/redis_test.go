package redisstore_test

import (
	"context"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/redisstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// namespace is a prefix on the shared server that nobody else uses.
type namespace struct {
	client  *redis.Client
	address string
	prefix  string
}

func newNamespace(t testing.TB) *namespace {
	t.Helper()
	at, err := url.Parse(servicetest.Redis(t)) // which removes what is left
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: at.Host, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	return &namespace{client, at.Host, at.Query().Get("prefix")}
}

// keys are the names in the namespace.
func (n *namespace) keys(t testing.TB) (keys []string) {
	t.Helper()
	all := n.client.Scan(context.Background(), 0, n.prefix+":*", 1000).Iterator()
	for all.Next(context.Background()) {
		keys = append(keys, all.Val())
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func (n *namespace) open(t testing.TB) *redisstore.Store {
	t.Helper()
	return open(t, "redis://"+n.address+"?prefix="+n.prefix)
}

// ttl is the time to live of a key, negative if it has none or does not exist.
func (n *namespace) ttl(t testing.TB, key string) time.Duration {
	t.Helper()
	ttl, err := n.client.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

func open(t testing.TB, dsn string) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

// server is a process of redis-server that a test may stop and kill.
type server struct {
	t       testing.TB
	binary  string
	args    []string
	port    string
	process *exec.Cmd
}

// startServer starts a server of its own on a free port, with its files in a
// directory that goes with the test.
func startServer(t testing.TB, binary string, args ...string) *server {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err != nil {
		servicetest.Missing(t, "%s: %v", binary+" is not installed", err)
	}
	dir, port := t.TempDir(), freePort(t)
	s := &server{t: t, binary: path, port: port, args: append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--logfile", filepath.Join(dir, "log"), "--daemonize", "no",
	}, args...)}
	t.Cleanup(s.kill)
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(s.binary, s.args...)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := s.client()
	defer client.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := client.Ping(context.Background()).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s does not answer: %v", s.binary, err)
		}
	}
}

func (s *server) kill() {
	if s.process != nil {
		s.process.Process.Kill()
		s.process.Wait()
		s.process = nil
	}
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) address() string { return "127.0.0.1:" + s.port }

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.address(), MaxRetries: -1, DialerRetries: 1})
}

func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if port < 55536 { // a node of a cluster also takes the port 10000 above
			return strconv.Itoa(port)
		}
	}
	t.Fatal("there is no free port below 55536")
	return ""
}

// startCluster starts three masters that share the slots.
func startCluster(t *testing.T, binary string) []*server {
	t.Helper()
	var nodes []*server
	for i := range 3 {
		node := startServer(t, binary, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		nodes = append(nodes, node)
		client := node.client()
		defer client.Close()
		first, last := i*16384/3, (i+1)*16384/3-1
		if err := client.ClusterAddSlotsRange(t.Context(), first, last).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.ClusterMeet(t.Context(), "127.0.0.1", nodes[0].port).Err(); err != nil && i > 0 {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		client := node.client()
		defer client.Close()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			info, err := client.ClusterInfo(t.Context()).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the cluster does not come up: %v\n%s", err, info)
			}
		}
	}
	return nodes
}

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// slotAt is the slot of policy and key at a time, as the limiter makes it.
func slotAt(policy, key string, limit int64, schedule domain.Schedule, at time.Time) domain.Slot {
	window := schedule.At(at)
	return domain.Slot{
		Policy: policy, Key: key, Schedule: schedule.String(), Limit: limit,
		Window: window, Previous: schedule.Previous(window, at), Expires: schedule.Expiry(window),
	}
}

func schedule(t testing.TB, text string) domain.Schedule {
	t.Helper()
	s, err := domain.ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustTake(t testing.TB, store domain.Counter, cost int64, slots ...domain.Slot) domain.Taken {
	t.Helper()
	taken, err := store.Take(context.Background(), []domain.Take{{Slots: slots, Cost: cost}})
	if err != nil {
		t.Fatal(err)
	}
	return taken[0]
}

func mustLook(t testing.TB, store domain.Counter, slot domain.Slot) domain.Tally {
	t.Helper()
	tallies, err := store.Look(context.Background(), []domain.Slot{slot})
	if err != nil {
		t.Fatal(err)
	}
	return tallies[0]
}
