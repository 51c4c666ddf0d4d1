package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// witness holds what the processes answer to the description of the API.
var witness *openapitest.Witness

// The tests below run the program as a process: the test binary is the program
// when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("RATELIMITLOG_TEST_AS_PROGRAM") != "" {
		main()
	}
	var err error
	if witness, err = openapitest.NewWitness(httpapi.Description); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(openapitest.Main(m, witness))
}

// server is a running "serve".
type server struct {
	cmd    *exec.Cmd
	url    string
	stdout *bufio.Reader // behind the first line
	stderr *strings.Builder
}

var listens = regexp.MustCompile(`^ratelimitlog listens on (http://(?:127\.0\.0\.1|\[::\]):\d+)\n$`)

// startServer runs serve on a file and waits until it says where it listens.
func startServer(t *testing.T, file string, args ...string) *server {
	t.Helper()
	return startServerOn(t, append([]string{"--dsn=sqlite:" + file}, args...)...)
}

// startServerOn runs serve and waits until it says where it listens.
func startServerOn(t *testing.T, args ...string) *server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{stderr: &strings.Builder{}}
	s.cmd = exec.Command(self, append([]string{"serve", "--addr=127.0.0.1:0", "--store-timeout=20s"}, args...)...)
	s.cmd.Env = append(os.Environ(), "RATELIMITLOG_TEST_AS_PROGRAM=1")
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	s.stdout = bufio.NewReader(out)
	line, err := s.stdout.ReadString('\n')
	found := listens.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("serve printed %q, %v", line, err)
	}
	s.url = found[1]
	return s
}

// end sends a signal and waits; it returns the exit status, -1 if the signal ended it.
func (s *server) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// answers counts what clients saw, by key and status.
type answers struct {
	mu    sync.Mutex
	count map[string]map[int]int64
}

func (a *answers) add(key string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil {
		a.count = map[string]map[int]int64{}
	}
	if a.count[key] == nil {
		a.count[key] = map[int]int64{}
	}
	a.count[key][status]++
}

// load pings the servers with clients at a time until each has sent requests, or
// the context ends, or no server answers any more.
func load(ctx context.Context, a *answers, clients, requests int, key func(client, n int) string, urls ...string) {
	loadWith(ctx, a, clients, requests, key, func(url, key string, _ int) (*http.Request, error) {
		r, err := http.NewRequest("GET", url+"/ping", nil)
		if err == nil {
			r.Header.Set("X-Client-Key", key)
		}
		return r, err
	}, urls...)
}

// loadWith is load with other requests: ask makes the n-th of a client.
func loadWith(ctx context.Context, a *answers, clients, requests int, key func(client, n int) string, ask func(url, key string, n int) (*http.Request, error), urls ...string) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: witness.Transport(transport)}
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for n := 0; n < requests && ctx.Err() == nil; n++ {
				k := key(c, n)
				r, err := ask(urls[(c+n)%len(urls)], k, n)
				if err != nil {
					panic(err)
				}
				response, err := client.Do(r)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					response.Body.Close()
					return // not answered in full
				}
				response.Body.Close()
				a.add(k, response.StatusCode)
			}
		})
	}
	group.Wait()
}

func query[T any](t *testing.T, file, text string, args ...any) (answer T) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(text, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// wantVerified checks that log and counters agree.
func wantVerified(t *testing.T, args ...string) {
	t.Helper()
	var out, err strings.Builder
	if status := run(t.Context(), append([]string{"verify"}, args...), &out, &err); status != 0 || !strings.Contains(out.String(), "log and counters agree") {
		t.Errorf("verify: exit status %d\n%s%s", status, out.String(), err.String())
	}
}

func TestOneAndTwoProcessesAdmitExactlyTheLimit(t *testing.T) { // case 70
	for processes := 1; processes <= 2; processes++ {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test.db")
			var servers []*server
			var urls []string
			for range processes {
				s := startServer(t, file, "--limit=500", "--window=36500d")
				servers, urls = append(servers, s), append(urls, s.url)
			}
			var a answers
			load(t.Context(), &a, 64, 5000/64, func(int, int) string { return "k" }, urls...)
			load(t.Context(), &a, 1, 5000-64*(5000/64), func(int, int) string { return "k" }, urls...)
			for _, s := range servers {
				if status := s.end(t, syscall.SIGTERM); status != 0 {
					t.Errorf("exit status %d: %s", status, s.stderr)
				}
				if strings.Contains(s.stderr.String(), "locked") {
					t.Errorf("the log speaks of locks: %s", s.stderr)
				}
			}
			if got := a.count["k"]; got[200] != 500 || got[429] != 4500 || len(got) != 2 {
				t.Errorf("answers by status: %v", got)
			}
			if got := query[string](t, file, `SELECT count||' '||refused FROM rate_limit_windows`); got != "5000 4500" {
				t.Errorf("count and refused = %s", got)
			}
			if got := query[string](t, file, `SELECT (SELECT sum(hits) FROM api_calls WHERE allowed)||' '||(SELECT sum(hits) FROM api_calls WHERE NOT allowed)`); got != "500 4500" {
				t.Errorf("hits in the log, allowed and refused = %s", got)
			}
		})
	}
}

func TestTwoProcessesChargeAllPoliciesOfAHitOrNone(t *testing.T) { // case 46
	dir := t.TempDir()
	file, policies := filepath.Join(dir, "test.db"), filepath.Join(dir, "policies.yaml")
	if err := os.WriteFile(policies, []byte("policies: {user: {limit: 50, window: 36500d}, site: {limit: 5000, window: 36500d}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one, other := startServer(t, file, "--policies="+policies), startServer(t, file, "--policies="+policies)
	var a answers
	const keys, each = 200, 64 // hits for each key
	loadWith(t.Context(), &a, 64, keys*each/64, func(client, n int) string { return fmt.Sprint("key-", (client*7+n)%keys) },
		func(url, key string, n int) (*http.Request, error) {
			names := []string{`["user","site"]`, `["site","user"]`}[n%2]
			return http.NewRequest("POST", url+"/v1/hits", strings.NewReader(`{"key":"`+key+`","policies":`+names+`}`))
		}, one.url, other.url)
	for _, s := range []*server{one, other} {
		if status := s.end(t, syscall.SIGTERM); status != 0 {
			t.Errorf("exit status %d: %s", status, s.stderr)
		}
	}
	if len(a.count) != keys {
		t.Errorf("%d keys were answered", len(a.count))
	}
	for key, got := range a.count {
		if got[200] != 50 || got[429] != each-50 || len(got) != 2 {
			t.Errorf("%s was answered %v", key, got)
		}
	}
	for policy, want := range map[string]string{"user": "12800 2800 10000", "site": "10000 0 10000"} {
		got := query[string](t, file, `SELECT sum(count)||' '||sum(refused)||' '||(SELECT sum(cost*hits) FROM api_calls WHERE policy = ?1 AND allowed) FROM rate_limit_windows WHERE policy = ?1`, policy)
		if got != want {
			t.Errorf("%s has count, refused, and allowed in the log of %s, want %s", policy, got, want)
		}
	}
}

// Three processes on one store are exact together, whatever the order in which hits
// name their policies.
func TestProcessesOnANetworkStoreAreExactTogether(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(policies, []byte("policies: {user: {limit: 50, window: 36500d}, site: {limit: 5000, window: 36500d}, trend: {limit: 1000, window: sliding 36500d}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	audit := "sqlite:" + filepath.Join(t.TempDir(), "audit.db")
	for name, config := range map[string]func(*testing.T) ratelimitlog.Config{
		"PostgreSQL": func(t *testing.T) ratelimitlog.Config { return ratelimitlog.Config{DSN: servicetest.Postgres(t)} },
		"Redis": func(t *testing.T) ratelimitlog.Config {
			return ratelimitlog.Config{DSN: servicetest.Redis(t), AuditDSN: audit}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t)
			if err := ratelimitlog.Migrate(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			args := []string{"--dsn=" + config.DSN, "--policies=" + policies}
			if config.AuditDSN != "" {
				args = append(args, "--audit-dsn="+config.AuditDSN)
			}
			var servers []*server
			var urls []string
			for range 3 {
				s := startServerOn(t, args...)
				servers, urls = append(servers, s), append(urls, s.url)
			}
			var a answers
			const keys, each = 40, 64 // hits for each key
			orders := []string{`["user","site","trend"]`, `["trend","user","site"]`, `["site","trend","user"]`}
			loadWith(t.Context(), &a, 64, keys*each/64, func(client, n int) string { return fmt.Sprint("key-", (client*7+n)%keys) },
				func(url, key string, n int) (*http.Request, error) {
					return http.NewRequest("POST", url+"/v1/hits", strings.NewReader(`{"key":"`+key+`","policies":`+orders[n%3]+`}`))
				}, urls...)
			for _, s := range servers {
				if status := s.end(t, syscall.SIGTERM); status != 0 {
					t.Errorf("exit status %d: %s", status, s.stderr)
				}
				if strings.Contains(s.stderr.String(), "deadlock") {
					t.Errorf("the log speaks of deadlocks: %s", s.stderr)
				}
			}
			for key, got := range a.count {
				if got[200] != 50 || got[429] != each-50 || len(got) != 2 {
					t.Errorf("%s was answered %v", key, got)
				}
			}
			// Counters and log agree, and say what the clients saw.
			wantVerified(t, args...)
			history, closeLog, err := ratelimitlog.NewHistory(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer closeLog()
			count, refused := map[string]int64{}, map[string]int64{}
			for query := (domain.CallQuery{OldestFirst: true, Limit: 1000}); ; {
				calls, err := history.Calls(t.Context(), query)
				if err != nil {
					t.Fatal(err)
				}
				for _, call := range calls {
					query.After = call.ID
					count[call.Policy] += call.Cost * call.Hits
					if !call.Allowed {
						refused[call.Policy] += call.Cost * call.Hits
					}
				}
				if len(calls) < query.Limit {
					break
				}
			}
			config.PolicyFile = policies
			limiter, stop, err := ratelimitlog.NewLimiter(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			held := map[string][2]int64{}
			for k := range keys {
				d, err := limiter.Counters(t.Context(), fmt.Sprint("key-", k), "user", "site", "trend")
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range d.Policies {
					held[p.Policy] = [2]int64{held[p.Policy][0] + p.Count, held[p.Policy][1] + p.Refused}
				}
			}
			for policy, want := range map[string]string{"user": "2560 560", "site": "2000 0", "trend": "2000 0"} {
				got, logged := fmt.Sprint(held[policy][0], held[policy][1]), fmt.Sprint(count[policy], refused[policy])
				if got != want || logged != want {
					t.Errorf("%s has count and refused of %s, in the log %s, want %s", policy, got, logged, want)
				}
			}
		})
	}
}

func TestACountOutlivesTheServerThatMadeIt(t *testing.T) { // case 127
	for name, engine := range map[string]func(*testing.T) []string{
		"SQLite": func(t *testing.T) []string {
			return []string{"--dsn=sqlite:" + filepath.Join(t.TempDir(), "test.db")}
		},
		"PostgreSQL": func(t *testing.T) []string { return []string{"--migrate", "--dsn=" + servicetest.Postgres(t)} },
		"Redis": func(t *testing.T) []string {
			return []string{"--dsn=" + servicetest.Redis(t), "--audit-dsn=sqlite:" + filepath.Join(t.TempDir(), "audit.db")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(engine(t), "--limit=3", "--window=calendar year")
			var statuses []int
			for _, pings := range []int{2, 1, 1} {
				s := startServerOn(t, args...)
				var a answers
				load(t.Context(), &a, 1, pings, func(int, int) string { return "k" }, s.url)
				for status := range a.count["k"] {
					statuses = append(statuses, status)
				}
				s.end(t, syscall.SIGKILL)
			}
			if got := fmt.Sprint(statuses); got != "[200 200 429]" {
				t.Errorf("two pings, then one, then one were answered %s", got)
			}
		})
	}
}

func TestACommandBesideAServerThatHashesKeysKnowsTheKey(t *testing.T) { // case 164
	c := newCommand(t)
	if err := os.WriteFile("keys.secret", []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := []string{"--hash-keys=keys.secret", "--limit=3", long}
	s := startServer(t, "shared.db", append(shared, "--log-level=debug")...)
	var a answers
	load(t.Context(), &a, 1, 4, func(int, int) string { return "sk_live_abc" }, s.url) // the store decides all
	if count := a.count["sk_live_abc"]; count[200] != 3 || count[429] != 1 {
		t.Errorf("answered %v", count)
	}
	beside := func(args ...string) []string { return append(append(args, "--dsn=sqlite:shared.db"), shared...) }
	c.want(0, beside("reset", "sk_live_abc"), "starts anew")
	c.want(0, beside("hit", "sk_live_abc"), "2 of 3 left")
	c.want(0, beside("status", "sk_live_abc"), "(attempted 1, refused 0)")
	c.want(0, []string{"status", "sk_live_abc", "--dsn=sqlite:shared.db", "--limit=3", long}, "(attempted 0, refused 0)") // without the secret
	if status := s.end(t, syscall.SIGTERM); status != 0 || strings.Contains(s.stderr.String(), "sk_live_abc") {
		t.Errorf("exit status %d, log:\n%s", status, s.stderr)
	}
}

func TestAKilledServerLosesNothingThatItAnswered(t *testing.T) { // cases 127, 130
	file := filepath.Join(t.TempDir(), "test.db")
	const limit = 400
	var seen answers
	for round := range 20 {
		s := startServer(t, file, fmt.Sprintf("--limit=%d", limit), "--window=36500d")
		key := func(client, n int) string { return fmt.Sprintf("%d-%d", round/4, client%8) } // four rounds use the same keys
		for k := range 8 {                                                                   // what was answered before is seen
			k := fmt.Sprintf("%d-%d", round/4, k)
			response, err := http.Get(s.url + "/status?key=" + k)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			var count, refused int64
			if _, err := fmt.Sscanf(string(body[strings.Index(string(body), `"count"`):]), `"count":%d,"refused":%d`, &count, &refused); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if count-refused < seen.count[k][200] {
				t.Errorf("round %d: %s shows %d used after %d were answered", round, k, count-refused, seen.count[k][200])
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			load(t.Context(), &seen, 32, 1<<30, key, s.url)
		}()
		time.Sleep(time.Duration(50+round*10) * time.Millisecond)
		s.end(t, syscall.SIGKILL)
		<-done
		if got := query[string](t, file, `PRAGMA integrity_check`); got != "ok" {
			t.Fatalf("round %d: integrity check: %s", round, got)
		}
	}
	wantVerified(t, "--dsn=sqlite:"+file)
	var answered int64
	for key, byStatus := range seen.count {
		answered += byStatus[200]
		used := query[int64](t, file, `SELECT count - refused FROM rate_limit_windows WHERE key = ?`, key)
		logged := query[int64](t, file, `SELECT sum(hits) FROM api_calls WHERE allowed AND key = ?`, key)
		if used < byStatus[200] || used > limit || logged != used || len(byStatus) > 2 || byStatus[200]+byStatus[429] == 0 {
			t.Errorf("key %s: answered %v, used %d, logged %d", key, byStatus, used, logged)
		}
		if refused, logged := query[int64](t, file, `SELECT refused FROM rate_limit_windows WHERE key = ?`, key),
			query[int64](t, file, `SELECT coalesce(sum(hits), 0) FROM api_calls WHERE NOT allowed AND key = ?`, key); refused != logged {
			t.Errorf("key %s: refused %d, logged %d", key, refused, logged)
		}
	}
	if answered == 0 {
		t.Error("nothing was answered")
	}
	t.Logf("%d allowed answers over 20 kills", answered)
}

func TestSIGTERMUnderLoadKeepsEveryAnswer(t *testing.T) { // case 128
	file := filepath.Join(t.TempDir(), "test.db")
	s := startServer(t, file, "--limit=1000", "--window=36500d")
	var seen answers
	done := make(chan struct{})
	go func() {
		defer close(done)
		load(t.Context(), &seen, 32, 1<<30, func(client, n int) string { return fmt.Sprint(client % 4) }, s.url)
	}()
	time.Sleep(time.Second)
	if status := s.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}
	<-done
	for key, byStatus := range seen.count {
		if n := query[int64](t, file, `SELECT count - refused FROM rate_limit_windows WHERE key = ?`, key); n != byStatus[200] {
			t.Errorf("key %s: %d allowed answers, %d used", key, byStatus[200], n)
		}
		if n := query[int64](t, file, `SELECT refused FROM rate_limit_windows WHERE key = ?`, key); n != byStatus[429] {
			t.Errorf("key %s: %d refusals, %d counted", key, byStatus[429], n)
		}
		for _, outcome := range []string{"count - refused = (SELECT sum(cost*hits) FROM api_calls a WHERE a.key = w.key AND allowed)",
			"refused = (SELECT coalesce(sum(cost*hits),0) FROM api_calls a WHERE a.key = w.key AND NOT allowed)"} {
			if query[int64](t, file, `SELECT count(*) FROM rate_limit_windows w WHERE key = ? AND `+outcome, key) != 1 {
				t.Errorf("key %s: not so: %s", key, outcome)
			}
		}
		if len(byStatus) > 2 {
			t.Errorf("key %s: %v", key, byStatus)
		}
	}
	if _, err := os.Stat(file + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the write-ahead log was not folded in: %v", err)
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	s := startServer(t, file)
	db, err := sql.Open("sqlite3", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin() // a hit now waits, and so does the server when it is told to stop
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	go http.Get(s.url + "/ping")
	time.Sleep(100 * time.Millisecond)
	s.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	if status := s.end(t, syscall.SIGTERM); status == 0 || time.Since(begun) > 2*time.Second {
		t.Errorf("after the second signal: exit status %d after %s", status, time.Since(begun))
	}
	tx.Rollback()
	if got := query[string](t, file, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity check: %s", got)
	}
}

// 200 000 expired windows and 500 000 calls are pruned by two servers while 50 requests
// a second come in, and the room that they leave is used again. With -short it is a fifth.
func TestPruneUnderLoadDelaysNobody(t *testing.T) { // cases 76, 133, 151, 157
	rows := 500_000
	if testing.Short() {
		rows /= 5
	}
	bound := rows / 50
	dir := t.TempDir()
	file, policies := filepath.Join(dir, "test.db"), filepath.Join(dir, "policies.yaml")
	if status := run(t.Context(), []string{"migrate", "--dsn=sqlite:" + file}, io.Discard, io.Discard); status != 0 {
		t.Fatalf("migrate: exit status %d", status)
	}
	if err := os.WriteFile(policies, fmt.Appendf(nil, `policies:
  default: {limit: unlimited, window: 36500d}
  aged: {limit: 5, window: 1m, audit: {keep: 30d}}
  many: {limit: 5, window: 1m, audit: {max_rows: %d}}
  kept: {limit: 5, window: 1m}
`, bound), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+file+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	series := func(n int) string {
		return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)`, n)
	}
	calls := series(rows) + `
		 INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule)
		 SELECT '2020-01-01T00:00:00.000Z', 'hit', CASE i % 10 WHEN 0 THEN 'kept' WHEN 1 THEN 'many' ELSE 'aged' END, 'key-'||(i%1000), 1, 1, i%7 > 0, 0, 1, i%7 = 0, 5, '2020-01-01T00:00:00Z', 'GET', '/ping', 'request-'||i, 'fixed 1m' FROM n`
	for _, statement := range []string{
		series(rows*2/5) + `
		 INSERT INTO rate_limit_windows SELECT 'default', 'old-'||i, 'fixed 1m', '2020-01-01T00:00:00Z', 5, 2, '2020-01-01T00:02:00Z' FROM n`,
		// Of a policy with a longer window, as old and live.
		`INSERT INTO rate_limit_windows SELECT 'year', 'live-'||value, 'fixed 3650d', '2020-01-01T00:00:00Z', 5, 2, '2999-01-01T00:00:00Z' FROM json_each('[1,2,3]')`,
		calls,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	one := startServer(t, file, "--policies="+policies, "--prune-every=500ms")
	other := startServer(t, file, "--policies="+policies, "--prune-every=500ms")
	var slowest time.Duration
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	prune := func() { // pings until nothing is left to prune
		for n := 0; ; n++ {
			<-tick.C
			begun := time.Now()
			response, err := http.Get([]string{one.url, other.url}[n%2] + "/ping")
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode != 200 {
				t.Fatalf("status %d during the prune", response.StatusCode)
			}
			slowest = max(slowest, time.Since(begun))
			if n%50 == 0 && query[int64](t, file, `SELECT (SELECT count(*) FROM rate_limit_windows WHERE key LIKE 'old-%') + (SELECT count(*) FROM api_calls WHERE policy = 'aged' AND kind = 'hit')
				+ (SELECT max(0, count(*) - `+strconv.Itoa(bound)+`) FROM api_calls WHERE policy = 'many' AND kind = 'hit')`) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %d requests there is something to prune still", n)
			}
		}
	}
	size := func() int64 {
		t.Helper()
		return query[int64](t, file, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`)
	}
	first := size()
	prune()
	if _, err := db.Exec(calls); err != nil { // a tenth of the first fill is kept
		t.Fatal(err)
	}
	second := size()
	prune()
	t.Logf("the slowest answer took %s; %d MiB after the first fill, %d after the second", slowest, first>>20, second>>20)
	if slowest > time.Second {
		t.Errorf("the slowest answer took %s", slowest)
	}
	if second > first*11/10 {
		t.Errorf("the file has %d bytes after the first fill and %d after the second", first, second)
	}
	for _, s := range []*server{one, other} {
		if status := s.end(t, syscall.SIGTERM); status != 0 || strings.Contains(s.stderr.String(), "failed") {
			t.Errorf("exit status %d: %s", status, s.stderr)
		}
	}
	if n := query[int64](t, file, `SELECT count(*) FROM rate_limit_windows`); n != 4 {
		t.Errorf("%d windows are left, want the 3 live ones and that of the pings", n)
	}
	if got := query[string](t, file, `SELECT count(*)||' '||(SELECT count(*) FROM api_calls WHERE policy = 'kept' AND kind = 'hit') FROM api_calls WHERE policy = 'many' AND kind = 'hit'`); got != fmt.Sprint(bound, rows/5) {
		t.Errorf("calls with a bound and without are left: %s", got)
	}
	if n := query[int64](t, file, `SELECT count(*) FROM api_calls_by_key WHERE policy = 'aged' AND allowed + refused > 0`); n != 0 {
		t.Errorf("keys are left in %d places after their calls", n)
	}
}

// What a process's time zone is must not matter.
func TestTheTimeZoneOfTheProcessDoesNotMatter(t *testing.T) { // cases 16, 134
	for window, begins := range map[string]string{"1d": "T00:00:00Z", "calendar day Asia/Shanghai": "T16:00:00Z"} {
		var starts []string
		for _, zone := range []string{"UTC", "America/New_York", "Asia/Kolkata"} {
			t.Setenv("TZ", zone)
			file := filepath.Join(t.TempDir(), "test.db")
			s := startServer(t, file, "--limit=3", "--window="+window, "--prune-every=10ms")
			var a answers
			load(t.Context(), &a, 1, 4, func(int, int) string { return "k" }, s.url)
			time.Sleep(100 * time.Millisecond) // some prunes
			if got := a.count["k"]; got[200] != 3 || got[429] != 1 {
				t.Errorf("%s in %s: answers %v", window, zone, got)
			}
			s.end(t, syscall.SIGTERM)
			starts = append(starts, query[string](t, file, `SELECT window_start||' '||expires_at||' '||count FROM rate_limit_windows`))
		}
		if starts[0] != starts[1] || starts[0] != starts[2] || !strings.Contains(starts[0], begins) {
			t.Errorf("windows of %s by time zone: %q", window, starts)
		}
	}
}
