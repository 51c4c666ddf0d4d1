package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// replicas is what compose.yaml describes, as processes: two servers on one PostgreSQL
// behind nginx, with the configurations in docs/deploy.
type replicas struct {
	url     string // of nginx
	dsn     string
	servers [2]*server
	args    []string
}

func startReplicas(t *testing.T, limit int) *replicas {
	t.Helper()
	r := &replicas{dsn: servicetest.Postgres(t)}
	if status := run(t.Context(), []string{"migrate", "--dsn=" + r.dsn}, io.Discard, io.Discard); status != 0 {
		t.Fatalf("migrate: exit status %d", status)
	}
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	rules := rewritten(t, "../../docs/deploy/policies.yaml", "10.83.0.10", "127.0.0.1", "limit: 60, window: 1m", fmt.Sprintf("limit: %d, window: 36500d", limit))
	if err := os.WriteFile(policies, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RATELIMITLOG_AUDIT_TOKEN", "") // as compose.yaml sets it
	r.args = []string{"--dsn=" + r.dsn, "--policies=" + policies, "--client-token=hits"}
	for i := range r.servers {
		r.servers[i] = startServerOn(t, r.args...)
	}
	r.url = servicetest.Nginx(t, func(address, dir string) string {
		return rewritten(t, "../../docs/deploy/nginx.conf", "/tmp/", dir+"/", "/dev/stderr", "stderr", "listen 8080", "listen "+address,
			"ratelimitlog-1:8080", r.addr(0), "ratelimitlog-2:8080", r.addr(1))
	})
	return r
}

func (r *replicas) addr(i int) string { return strings.TrimPrefix(r.servers[i].url, "http://") }

// restart starts a server where it was, and waits until nginx asks it again.
func (r *replicas) restart(t *testing.T, i int) {
	t.Helper()
	r.servers[i] = startServerOn(t, append(r.args, "--addr="+r.addr(i))...)
	time.Sleep(2 * time.Second) // fail_timeout, which nginx reckons in whole seconds
}

// rewritten is a file with some texts replaced, each of which must be there.
func rewritten(t *testing.T, file string, oldNew ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(string(text), oldNew[i]) {
			t.Fatalf("%s has no %q", file, oldNew[i])
		}
	}
	return strings.NewReplacer(oldNew...).Replace(string(text))
}

// from is a client with an address of its own, with connections that it keeps.
func from(t *testing.T, address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// load sends requests from 16 connections until each has sent some or the context
// ends. Unlike the other loads it counts a request without an answer, as status 0.
func (r *replicas) load(ctx context.Context, a *answers, key string, client *http.Client, requests int, ask func() *http.Request, sent *atomic.Int64) {
	done := make(chan struct{})
	for range 16 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range requests {
				if ctx.Err() != nil {
					return
				}
				status := 0
				if response, err := client.Do(ask()); err == nil {
					if _, err := io.Copy(io.Discard, response.Body); err == nil {
						status = response.StatusCode
					}
					response.Body.Close()
				}
				a.add(key, status)
				sent.Add(1)
			}
		}()
	}
	for range 16 {
		<-done
	}
}

func (r *replicas) ping() *http.Request {
	request, _ := http.NewRequest("GET", r.url+"/ping", nil)
	request.Header.Set("X-Forwarded-For", "203.0.113.9") // which the client has made up
	return request
}

func (r *replicas) hit(key string) func() *http.Request {
	return func() *http.Request {
		request, _ := http.NewRequest("POST", r.url+"/v1/hits", strings.NewReader(`{"key":"`+key+`","policies":["default"]}`))
		request.Header.Set("Authorization", "Bearer hits")
		return request
	}
}

// counter is what a key has used, and what of it was refused, once all is counted.
func (r *replicas) counter(t *testing.T, key string) (used, refused int64) {
	t.Helper()
	db, err := sql.Open("pgx", r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT count - refused, refused FROM rate_limit_windows WHERE key = $1`, key).Scan(&used, &refused); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return used, refused
}

func TestReplicasBehindAProxyAdmitExactlyTheLimitOfEachClient(t *testing.T) {
	r := startReplicas(t, 300)
	var a answers
	var sent atomic.Int64
	done := make(chan struct{})
	clients := []string{"127.0.0.2", "127.0.0.3"}
	for _, address := range clients {
		go func() {
			r.load(t.Context(), &a, address, from(t, address), 50, r.ping, &sent)
			done <- struct{}{}
		}()
	}
	for range clients {
		<-done
	}
	for _, s := range r.servers {
		if status := s.end(t, syscall.SIGTERM); status != 0 { // and so all is counted
			t.Errorf("exit status %d: %s", status, s.stderr)
		}
	}
	for _, address := range clients {
		if got := a.count[address]; got[200] != 300 || got[429] != 500 {
			t.Errorf("%s was answered %v", address, got)
		}
		if used, refused := r.counter(t, "ip:"+address); used != 300 || refused != 500 {
			t.Errorf("%s has used %d and was refused %d", address, used, refused)
		}
	}
	wantVerified(t, "--dsn="+r.dsn)
}

func TestTheProxyKeepsMetricsInside(t *testing.T) {
	r := startReplicas(t, 300)
	client := from(t, "127.0.0.1") // the proxy's own answers are no part of the API
	for _, path := range []string{"/metrics", "//metrics", "/%6detrics", "/metrics?x"} {
		response, err := client.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	response, err := http.Get(r.servers[0].url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("inside: %s", response.Status)
	}
}

// One replica is told to stop, comes back, and then the other one dies, all under load.
func TestClientsGoOnWhenAReplicaStopsOrDies(t *testing.T) {
	r := startReplicas(t, 1_000_000)
	under := func(key string, client *http.Client, ask func() *http.Request, meanwhile func()) map[int]int64 {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var a answers
		var sent atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.load(ctx, &a, key, client, 1<<30, ask, &sent)
		}()
		more := func(n int64) {
			for deadline, until := time.Now().Add(20*time.Second), sent.Load()+n; sent.Load() < until; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("%s: the load does not go on", key)
					return
				}
			}
		}
		more(500)
		meanwhile()
		more(500)
		stop()
		<-done
		t.Logf("%s: answers by status: %v", key, a.count[key])
		return a.count[key]
	}
	stop := func() {
		if status := r.servers[0].end(t, syscall.SIGTERM); status != 0 {
			t.Errorf("exit status %d: %s", status, r.servers[0].stderr)
		}
	}
	for _, c := range []struct {
		key    string
		client *http.Client
		ask    func() *http.Request
	}{
		{"ip:127.0.0.2", from(t, "127.0.0.2"), r.ping},
		{"alice", from(t, "127.0.0.3"), r.hit("alice")},
	} {
		// What is stopped loses no answer, and counts nothing twice.
		got := under(c.key, c.client, c.ask, stop)
		if used, _ := r.counter(t, c.key); len(got) != 1 || got[200] != used {
			t.Errorf("%s: answers %v, used %d", c.key, got, used)
		}
		r.restart(t, 0)
	}
	// What dies takes the answers under way with it. Pings are asked for again of the
	// other one; of hits each connection loses one at most.
	got := under("ip:127.0.0.4", from(t, "127.0.0.4"), r.ping, func() { r.servers[1].end(t, syscall.SIGKILL) })
	if used, _ := r.counter(t, "ip:127.0.0.4"); len(got) != 1 || got[200] > used || used > got[200]+16 {
		t.Errorf("a replica died: answers %v, used %d", got, used)
	}
	r.restart(t, 1)
	got = under("bob", from(t, "127.0.0.5"), r.hit("bob"), func() { r.servers[1].end(t, syscall.SIGKILL) })
	if used, _ := r.counter(t, "bob"); got[200] > used || used > got[200]+got[502] || got[502] > 16 || got[0] != 0 || len(got) > 2 {
		t.Errorf("a replica died: answers %v, used %d", got, used)
	}
	wantVerified(t, "--dsn="+r.dsn)
}
