package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/redisstore"
)

// monitor returns what clients send to the server while do runs, a line for each
// command, without what scripts do.
func (s *server) monitor(do func()) (sent []string) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	client.Ping(context.Background())
	conn, err := net.Dial("tcp", s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewReader(conn)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		s.t.Fatalf("MONITOR: %q, %v", line, err)
	}
	do()
	client.Echo(context.Background(), "that is all")
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.Contains(line, "that is all") {
			return sent
		}
		if !strings.Contains(line, " lua]") {
			_, command, _ := strings.Cut(line, "] ")
			sent = append(sent, strings.TrimSpace(command))
		}
	}
}

func startsWith(commands []string, names ...string) bool {
	if len(commands) != len(names) {
		return false
	}
	for i, name := range names {
		if !strings.HasPrefix(strings.ToLower(commands[i]), `"`+name+`"`) {
			return false
		}
	}
	return true
}

func TestADecisionIsOneScript(t *testing.T) {
	server := startServer(t, "redis-server")
	store := open(t, "redis://"+server.address())
	slot := func(key string) domain.Slot { return slotAt("p", key, 3, schedule(t, "sliding 1m"), newYear) }
	other := slot("a")
	other.Policy = "q"
	mustTake(t, store, 1, slot("a")) // connects, and sends the script
	if sent := server.monitor(func() { mustTake(t, store, 1, slot("a"), other) }); !startsWith(sent, "evalsha") {
		t.Errorf("a take sends %q", sent)
	}
	if sent := server.monitor(func() {
		if _, err := store.Take(context.Background(), []domain.Take{
			{Cost: 1, Slots: []domain.Slot{slot("a")}}, {Cost: 1, Slots: []domain.Slot{slot("b")}}, {Cost: 1, Slots: []domain.Slot{slot("a")}},
		}); err != nil {
			t.Error(err)
		}
	}); !startsWith(sent, "multi", "evalsha", "evalsha", "exec") {
		t.Errorf("takes of two keys send %q", sent)
	}
	if sent := server.monitor(func() { mustLook(t, store, slot("a")) }); !startsWith(sent, "hmget") {
		t.Errorf("a look sends %q", sent)
	}
	if sent := server.monitor(func() { store.Reset(context.Background(), "p", "a") }); !startsWith(sent, "del") {
		t.Errorf("a reset sends %q", sent)
	}
}

// In pipelines too, and when fifty find out at the same time.
func TestAServerThatForgotTheScriptIsSentIt(t *testing.T) {
	server := startServer(t, "redis-server")
	store := open(t, "redis://"+server.address())
	client := server.client()
	defer client.Close()
	test := func(t *testing.T) {
		var takes []domain.Take
		for i := range 10 {
			takes = append(takes, domain.Take{Cost: 1, Slots: []domain.Slot{slotAt("p", fmt.Sprint(t.Name(), i), 1000, schedule(t, "1m"), newYear)}})
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				taken, err := store.Take(context.Background(), takes)
				if err != nil {
					t.Error(err)
				} else if !taken[9].Allowed {
					t.Error("refused")
				}
			})
		}
		group.Wait()
		for i := range takes {
			if got := mustLook(t, store, takes[i].Slots[0]).Count; got != 50 {
				t.Errorf("key %d counts %d, want 50", i, got)
			}
		}
	}
	t.Run("new", test)
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("flushed", test)
	server.kill()
	server.start()
	t.Run("restarted", test)

	t.Run("flushed all the time", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var flusher sync.WaitGroup
		flusher.Go(func() {
			for ctx.Err() == nil {
				client.ScriptFlush(ctx)
			}
		})
		test(t)
		cancel()
		flusher.Wait()
	})
}

func TestAServerThatIsAwayIsAnErrorAtOnce(t *testing.T) {
	server := startServer(t, "redis-server")
	store := open(t, "redis://"+server.address())
	slot := slotAt("p", "k", 3, schedule(t, "1m"), newYear)
	mustTake(t, store, 1, slot)
	server.kill()
	begun := time.Now()
	for range 3 {
		if _, err := store.Take(t.Context(), []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}}); err == nil {
			t.Error("no error")
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("three takes took %s", took)
	}
	if err := store.Ping(t.Context()); err == nil {
		t.Error("the ping succeeded")
	}
	server.start()
	mustTake(t, store, 1, slot)
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A server that hangs costs no more than the context allows, and takes it may have
// seen are not sent again.
func TestAServerThatHangsCostsNoMoreThanTheDeadline(t *testing.T) {
	server := startServer(t, "redis-server")
	store := open(t, "redis://"+server.address())
	slot := slotAt("p", "k", domain.Unlimited, schedule(t, "1m"), newYear)
	mustTake(t, store, 1, slot)
	before := runtime.NumGoroutine()
	const budget, parallel = 150 * time.Millisecond, 10

	deadline := func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), budget) }
	cancelled := func() (context.Context, context.CancelFunc) { // as of a unit of work: no deadline to be seen
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(budget, cancel)
		return ctx, cancel
	}
	server.signal(syscall.SIGSTOP)
	for name, ctx := range map[string]func() (context.Context, context.CancelFunc){"deadline": deadline, "cancelled": cancelled} {
		for what, do := range map[string]func(context.Context) error{
			"take": func(ctx context.Context) error {
				_, err := store.Take(ctx, []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}})
				return err
			},
			"look":  func(ctx context.Context) error { _, err := store.Look(ctx, []domain.Slot{slot}); return err },
			"reset": func(ctx context.Context) error { return store.Reset(ctx, "other", "k") },
			"ping":  store.Ping,
		} {
			var group sync.WaitGroup
			for range parallel {
				group.Go(func() {
					ctx, cancel := ctx()
					defer cancel()
					begun := time.Now()
					if err := do(ctx); err == nil {
						t.Errorf("%s: no error", what)
					}
					if took := time.Since(begun); took > budget+300*time.Millisecond {
						t.Errorf("%s with a context %s took %s", what, name, took)
					}
				})
			}
			group.Wait()
		}
	}
	server.signal(syscall.SIGCONT)
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
			break
		}
	}
	if got := mustLook(t, store, slot).Count; got > 1+2*parallel {
		t.Errorf("%d units are counted of %d takes", got, 1+2*parallel)
	}
}

// cut breaks a connection after a script was sent over it and answered.
type cut struct {
	net.Conn
	armed *atomic.Bool
	sent  bool
}

func (c *cut) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "evalsha") && c.armed.Swap(false) {
		c.sent = true
	}
	return c.Conn.Write(b)
}

func (c *cut) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.sent {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

func TestATakeWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	t.Parallel()
	test := func(dsn string) func(t *testing.T) {
		return func(t *testing.T) {
			var armed atomic.Bool
			store, err := redisstore.OpenDialing(dsn, func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return &cut{Conn: conn, armed: &armed}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			slot := slotAt("p", "k", 10, schedule(t, "1m"), newYear)
			mustTake(t, store, 1, slot)
			armed.Store(true)
			if _, err := store.Take(t.Context(), []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}}); err == nil {
				t.Error("no error")
			}
			if got := mustLook(t, store, slot).Count; got != 2 {
				t.Errorf("two takes count %d", got)
			}
		}
	}
	t.Run("server", test("redis://"+startServer(t, "redis-server").address()))
	t.Run("cluster", test("redis://"+startCluster(t, "redis-server")[0].address()+"?cluster=true"))
}

func TestAServerThatIsFullRecordsNothing(t *testing.T) {
	server := startServer(t, "redis-server")
	store := open(t, "redis://"+server.address())
	client := server.client()
	defer client.Close()
	var takes []domain.Take
	for i := range 5 {
		takes = append(takes, domain.Take{Cost: 1, Slots: []domain.Slot{slotAt("p", fmt.Sprint(i), 3, schedule(t, "1m"), newYear)}})
	}
	mustTake(t, store, 1, takes[3].Slots[0])
	client.ConfigSet(t.Context(), "maxmemory", "1")
	if _, err := store.Take(t.Context(), takes); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the error is %v", err)
	}
	client.ConfigSet(t.Context(), "maxmemory", "0")
	for i := range takes {
		want := int64(0)
		if i == 3 {
			want = 1
		}
		if got := mustLook(t, store, takes[i].Slots[0]).Count; got != want {
			t.Errorf("key %d counts %d", i, got)
		}
	}
}

func TestWhatIsNoWindowIsAnErrorUntilItIsReset(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	slot := slotAt("p", "k", 3, schedule(t, "1m"), newYear)
	for _, value := range []string{"", "3", "3 0", "-1 0 1", "a b c", "3 0 9 9"} {
		n.client.HSet(t.Context(), n.prefix+":{k}:p", "fixed 1m 1767225600", value)
		if _, err := store.Take(t.Context(), []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}}); err == nil {
			t.Errorf("%q is a window", value)
		}
		if err := store.Reset(t.Context(), "p", "k"); err != nil {
			t.Error(err)
		}
		mustTake(t, store, 1, slot)
	}
}

// Braces in a key do not move it to another slot, nor make it another key.
func TestAllPoliciesOfAKeyAreInOneSlotOfACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, "redis-server")
	store := open(t, "redis://"+nodes[1].address()+"?cluster=true")
	keys := []string{"{", "}", "{}", "}{", "a}b{c", "%", "%7D", "%257D", "{a}", "a", "a}", "{a", ":", "}:p"}
	slots := func(key string) (slots []domain.Slot) {
		for _, policy := range []string{"p", "q", "r", "}:{", "{x}"} {
			slots = append(slots, slotAt(policy, key, 100, schedule(t, "1m"), newYear))
		}
		return slots
	}
	for i, key := range keys {
		mustTake(t, store, int64(i+1), slots(key)...)
	}
	for i, key := range keys {
		for _, slot := range slots(key) {
			if got := mustLook(t, store, slot).Count; got != int64(i+1) {
				t.Errorf("%q under %q counts %d, want %d", key, slot.Policy, got, i+1)
			}
		}
	}
}

func TestATakeHasOneKeyAndCostsSomething(t *testing.T) {
	store := open(t, "redis://127.0.0.1:1")
	a, b := slotAt("p", "a", 3, schedule(t, "1m"), newYear), slotAt("q", "b", 3, schedule(t, "1m"), newYear)
	for _, take := range []domain.Take{{Cost: 1, Slots: []domain.Slot{a, b}}, {Cost: 0, Slots: []domain.Slot{a}}, {Cost: -1, Slots: []domain.Slot{a}}} {
		if _, err := store.Take(t.Context(), []domain.Take{take}); err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("the error is %v", err)
		}
	}
	if taken, err := store.Take(t.Context(), nil); err != nil || len(taken) != 0 { // needs no server
		t.Errorf("no takes come to %v, %v", taken, err)
	}
	if tallies, err := store.Look(t.Context(), nil); err != nil || len(tallies) != 0 {
		t.Errorf("no slots hold %v, %v", tallies, err)
	}
}

func TestPasswords(t *testing.T) {
	const password = "s3/cr?t@:%#"
	server := startServer(t, "redis-server", "--user", "default", "off", "--user", "counter", "on", ">"+password, "~*", "&*", "+@all")
	slot := slotAt("p", "k", 3, schedule(t, "1m"), newYear)
	mustTake(t, open(t, "redis://counter:s3%2Fcr%3Ft%40:%25%23@"+server.address()), 1, slot)
	store := open(t, "redis://counter:wr0ng@"+server.address())
	_, err := store.Take(t.Context(), []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}})
	if err == nil || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("with a wrong password the error is %v", err)
	}
}

func TestTLSVerifiesTheServer(t *testing.T) {
	listener := httptest.NewUnstartedServer(nil)
	listener.Config.ErrorLog = log.New(io.Discard, "", 0)
	listener.StartTLS() // with a certificate that nobody vouches for
	defer listener.Close()
	for _, parameters := range []string{"", "?cluster=true"} {
		err := open(t, "rediss://"+listener.Listener.Addr().String()+parameters).Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("the error is %v", err)
		}
	}
}

// A slot that moves to another node while the client does not know costs a detour,
// and no hit is counted twice.
func TestASlotThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, "redis-server")
	store := open(t, "redis://"+nodes[0].address()+"?cluster=true")
	var clients []*redis.Client
	var ids []string
	for _, node := range nodes {
		client := node.client()
		defer client.Close()
		id, err := client.Do(t.Context(), "cluster", "myid").Text()
		if err != nil {
			t.Fatal(err)
		}
		clients, ids = append(clients, client), append(ids, id)
	}
	do := func(client *redis.Client, args ...any) {
		t.Helper()
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	const key = "moving"
	number, err := clients[0].ClusterKeySlot(t.Context(), "{"+key+"}").Result()
	if err != nil {
		t.Fatal(err)
	}
	from := int(number) * 3 / 16384
	to := (from + 1) % 3
	slot := slotAt("p", key, 100, schedule(t, "1m"), newYear)
	takes := []domain.Take{{Cost: 1, Slots: []domain.Slot{slot}}}
	for i := range 20 { // beside it keys that do not move, on all nodes
		takes = append(takes, domain.Take{Cost: 1, Slots: []domain.Slot{slotAt("p", fmt.Sprint(i), 100, schedule(t, "1m"), newYear)}})
	}
	take := func(want int64) {
		t.Helper()
		taken, err := store.Take(t.Context(), takes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range taken {
			if i > 0 {
				want = taken[1].Tallies[0].Count
			}
			if got := taken[i].Tallies[0].Count; got != want {
				t.Errorf("key %d counts %d, want %d", i, got, want)
			}
		}
	}
	take(1)
	if err := store.Reset(t.Context(), "p", key); err != nil {
		t.Fatal(err)
	}
	do(clients[to], "cluster", "setslot", number, "importing", ids[from])
	do(clients[from], "cluster", "setslot", number, "migrating", ids[to])
	take(1) // the key is not there any more: ASK
	take(2)
	do(clients[to], "cluster", "setslot", number, "node", ids[to])
	do(clients[from], "cluster", "setslot", number, "node", ids[to])
	take(3) // MOVED
	take(4)
	if got := mustLook(t, store, takes[1].Slots[0]).Count; got != 5 {
		t.Errorf("a key beside it counts %d of 5 takes", got)
	}
}

// A user without the right to transactions gets errors, never somebody else's answer.
func TestMissingRightsAreErrors(t *testing.T) {
	server := startServer(t, "redis-server", "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-multi")
	store := open(t, "redis://"+server.address())
	slot := func(i int) domain.Slot { return slotAt("p", fmt.Sprint(i), 100, schedule(t, "1m"), newYear) }
	mustTake(t, store, 1, slot(1))
	for range 20 {
		_, err := store.Take(t.Context(), []domain.Take{{Cost: 1, Slots: []domain.Slot{slot(2)}}, {Cost: 1, Slots: []domain.Slot{slot(3)}}})
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the error is %v", err)
		}
		if got := mustLook(t, store, slot(1)); got != (domain.Tally{Count: 1}) {
			t.Errorf("the tally is %+v", got)
		}
	}
}
