package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// command runs the program in this process, in a directory of its own.
type command struct {
	t   *testing.T
	dir string
}

func newCommand(t *testing.T) command {
	dir := t.TempDir()
	t.Chdir(dir)
	return command{t, dir}
}

func (c command) run(args ...string) (status int, stdout, stderr string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// want runs the program and compares its exit status; what it prints must contain texts.
func (c command) want(status int, args []string, texts ...string) string {
	c.t.Helper()
	got, stdout, stderr := c.run(args...)
	if got != status {
		c.t.Errorf("%q: exit status %d, want %d\n%s%s", args, got, status, stdout, stderr)
	}
	for _, text := range texts {
		if !strings.Contains(stdout+stderr, text) {
			c.t.Errorf("%q printed\n%s%swhich lacks %q", args, stdout, stderr, text)
		}
	}
	return stdout
}

// long makes windows that a test does not outlive.
const long = "--window=36500d"

func TestHitStatusResetAndCallsAgree(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"hit", "alice", "--limit=2", long}, "allowed", "policy default: 1 of 2 left", "(attempted 1, refused 0)")
	c.want(0, []string{"hit", "alice", "--limit=2", long}, "0 of 2 left")
	c.want(3, []string{"hit", "alice", "--limit=2", long}, "refused, retry after", "0 of 2 left", "(attempted 3, refused 1)")
	c.want(0, []string{"status", "alice", "--limit=2", long}, "0 of 2 left", "(attempted 3, refused 1)")
	c.want(0, []string{"status", "bob", "--limit=unlimited", long}, "no limit", "(attempted 0, refused 0)")
	c.want(0, []string{"reset", "alice"}, `policy default: "alice" starts anew`)
	c.want(0, []string{"status", "alice", "--limit=2", long}, "2 of 2 left")

	calls := c.want(0, []string{"calls"})
	if lines := strings.Split(strings.TrimSpace(calls), "\n"); len(lines) != 5 || !strings.Contains(lines[1], "reset") || !strings.Contains(lines[2], "refused") {
		t.Errorf("calls:\n%s", calls)
	}
	if got := c.want(0, []string{"calls", "--outcome=refused", "--key=alice", "-n1"}); strings.Count(got, "\n") != 2 {
		t.Errorf("one refused call:\n%s", got)
	}
}

func TestJSONIsForPrograms(t *testing.T) {
	c := newCommand(t)
	var hit struct {
		Allowed    bool
		Key        string
		Cost       int64
		RetryAfter int64 `json:"retry_after"`
		Policies   []struct {
			Policy                           string
			Allowed                          bool
			Limit, Count, Refused, Remaining int64
			WindowStart                      string `json:"window_start"`
			WindowEnd                        string `json:"window_end"`
		}
	}
	decode(t, c.want(0, []string{"hit", "k", "--cost=3", "--limit=5", long, "--json"}), &hit)
	if p := hit.Policies[0]; !hit.Allowed || hit.Cost != 3 || hit.RetryAfter != 0 || p.Count != 3 || p.Remaining != 2 || p.WindowStart != "1970-01-01T00:00:00Z" {
		t.Errorf("hit = %+v", hit)
	}
	decode(t, c.want(3, []string{"hit", "k", "--cost=3", "--limit=5", long, "--json"}), &hit)
	if p := hit.Policies[0]; hit.Allowed || hit.RetryAfter < 1 || p.Allowed || p.Count != 6 || p.Refused != 3 || p.Remaining != 2 {
		t.Errorf("hit = %+v", hit)
	}
	var status map[string]any // as GET /status
	decode(t, c.want(0, []string{"status", "k", "--limit=5", long, "--json"}), &status)
	if status["key"] != "k" || status["count"] != 6.0 || status["refused"] != 3.0 || status["remaining"] != 2.0 || status["policy"] != "default" {
		t.Errorf("status = %v", status)
	}
	decode(t, c.want(0, []string{"reset", "k", "--json"}), &status)
	lines := strings.Split(strings.TrimSpace(c.want(0, []string{"calls", "-n0", "--json"})), "\n")
	var kinds []string
	for i, line := range lines {
		var call map[string]any
		decode(t, line, &call)
		kinds = append(kinds, fmt.Sprintf("%v %v %v", call["kind"], call["allowed"], call["limit"]))
		if call["id"] != float64(len(lines)-i) {
			t.Errorf("call %d has id %v", i, call["id"])
		}
	}
	if got := strings.Join(kinds, " "); got != "reset true <nil> hit false 5 hit true 5" {
		t.Errorf("calls = %s", got)
	}
	for _, args := range [][]string{{"version", "--json"}, {"prune", "--json"}, {"migrate", "--json"}} {
		decode(t, c.want(0, args), &status)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func TestCallsPagesThroughALongLog(t *testing.T) {
	c := newCommand(t)
	for range 3 {
		c.want(0, []string{"hit", "k", "--limit=unlimited"})
	}
	for n, want := range map[string]int{"-n1": 1, "-n2": 2, "-n3": 3, "-n50": 3, "-n0": 3} {
		if got := strings.Count(c.want(0, []string{"calls", n, "--json"}), "\n"); got != want {
			t.Errorf("%s shows %d calls, want %d", n, got, want)
		}
	}
}

func TestMisuseIsToldWithExitStatusTwo(t *testing.T) {
	c := newCommand(t)
	for _, m := range []struct {
		args []string
		text string
	}{
		{[]string{}, "expected one of"},
		{[]string{"bogus"}, "bogus"},
		{[]string{"hit"}, "<key>"},
		{[]string{"hit", ""}, "key must not be empty"},
		{[]string{"hit", "a\x00"}, "U+0000"},
		{[]string{"hit", "k", "--cost=-1"}, "cost is -1"},
		{[]string{"hit", "k", "--cost=1.5"}, "cost"},
		{[]string{"hit", "k", "--cost=61"}, "can never pass"},
		{[]string{"hit", "k", "--policy=nope"}, `no policy named "nope"`},
		{[]string{"hit", "k", "--limit=-1"}, `limit "-1" is not a whole number`},
		{[]string{"hit", "k", "--window=500ms"}, `window "500ms" is not a schedule`},
		{[]string{"hit", "k", "--synchronous=off"}, "synchronous"},
		{[]string{"hit", "k", "--dsn=oracle://x"}, `dsn does not begin with one of sqlite:, postgres: and redis:`},
		{[]string{"hit", "k", "--dsn="}, "dsn must not be empty"},
		{[]string{"hit", "k", "--limit="}, "limit must not be empty"},
		{[]string{"hit", "k", "--window="}, "window must not be empty"},
		{[]string{"hit", "k", "--store-timeout=0"}, "store-timeout must not be empty or 0"},
		{[]string{"serve", "--addr=127.0.0.1:0", "--queue=0"}, "queue must not be empty or 0"},
		{[]string{"status", "k", "--dsn=sqlite::memory:"}, "nothing in it to be read"},
		{[]string{"calls", "--outcome=maybe"}, "outcome"},
		{[]string{"calls", "-n-1"}, "number"},
		{[]string{"serve", "--addr=127.0.0.1:0", "--prune-every=soon"}, "prune-every"},
		{[]string{"serve", "--addr=127.0.0.1:0", "--queue=-1"}, "queue is -1"},
		{[]string{"hit", "k", "--hash-keys="}, "hash-keys must not be empty"},
		{[]string{"hit", "k", "--policies="}, "--policies: must not be empty"},
		{[]string{"hit", "k", "--hash-keys=s3cret"}, "hash-keys names a file that cannot be read"},
		{[]string{"hit", "k", "--store-timeout=-1s"}, "store-timeout is -1s"},
	} {
		c.want(2, m.args, m.text)
	}
	c.want(0, []string{"calls"})
	if calls := c.want(0, []string{"calls", "--json"}); calls != "" {
		t.Errorf("misuse was logged: %s", calls)
	}
}

func TestFailuresAreToldWithExitStatusOne(t *testing.T) {
	c := newCommand(t)
	for _, args := range [][]string{{"status", "k"}, {"reset", "k"}, {"quota", "set", "k", "5"}, {"quota", "unset", "k"}, {"prune"}} {
		c.want(1, append(args, "--dsn=sqlite:typo.db"), "there is no such database yet")
		if _, err := os.Stat("typo.db"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q made the database: %v", args, err)
		}
	}
	c.want(1, []string{"calls"}, "there is no such database yet")
	c.want(1, []string{"hit", "k", "--dsn=sqlite:no/such/dir/x.db"}, "open sqlite:no/such/dir/x.db")
	c.want(1, []string{"serve", "--dsn=sqlite::memory:", "--addr=256.0.0.1:1"}, "256.0.0.1")
	if err := os.WriteFile(filepath.Join(c.dir, "text.db"), []byte(strings.Repeat("text ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(1, []string{"status", "k", "--dsn=sqlite:text.db"}, "not a database")
}

func TestTheEnvironmentSetsFlags(t *testing.T) {
	c := newCommand(t)
	t.Setenv("RATELIMITLOG_DSN", "sqlite:other.db")
	t.Setenv("RATELIMITLOG_LIMIT", "1")
	t.Setenv("RATELIMITLOG_WINDOW", "36500d")
	c.want(0, []string{"hit", "k"}, "0 of 1 left")
	c.want(3, []string{"hit", "k"})
	c.want(0, []string{"hit", "k", "--limit=2"}, "0 of 2 left") // a flag wins
	if _, err := os.Stat("other.db"); err != nil {
		t.Error(err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"--help"}, "A rate limiter that remembers every decision.", "$RATELIMITLOG_DSN")
	c.want(0, []string{"serve", "--help"}, "--addr", "$RATELIMITLOG_ADDR")
	c.want(0, []string{"version"}, "ratelimitlog", "SQLite 3.")
}

func TestExitStatusesOfErrors(t *testing.T) {
	for _, e := range []struct {
		err    error
		status int
	}{
		{nil, 0},
		{&domain.InvalidError{}, 2}, {&domain.NotFoundError{}, 2}, {domain.ErrNotFound, 2},
		{&domain.RateLimitExceeded{}, 3}, {domain.ErrOverloaded, 1}, {domain.ErrUnavailable, 1}, {errors.New("other"), 1},
	} {
		if got := exitStatus(e.err); got != e.status {
			t.Errorf("%T has the exit status %d, want %d", e.err, got, e.status)
		}
	}
}

func TestQuotas(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"migrate"})
	c.want(2, []string{"quota", "get", "alice"}, `no quota named "alice"`)
	c.want(0, []string{"quota", "set", "alice", "5"}, `policy default: "alice" has the limit 5`)
	c.want(0, []string{"quota", "set", "bob", "unlimited"}, "unlimited")
	c.want(0, []string{"quota", "get", "alice"}, "the limit 5")
	if got, want := c.want(0, []string{"quota", "list", "--json"}), `{"policy":"default","key":"alice","limit":5}`+"\n"+`{"policy":"default","key":"bob","limit":"unlimited"}`+"\n"; got != want {
		t.Errorf("quota list: %s, want %s", got, want)
	}
	c.want(0, []string{"hit", "alice", long, "--limit=2", "--cost=5"}, "0 of 5 left")
	c.want(3, []string{"hit", "alice", long, "--limit=2"}, "refused")
	c.want(0, []string{"status", "alice", long, "--limit=2"}, "0 of 5 left")
	c.want(0, []string{"quota", "unset", "alice"}, `"alice" has no limit of its own`)
	c.want(0, []string{"status", "alice", long, "--limit=2"}, "0 of 2 left")
	c.want(0, []string{"calls"}, "quota set", "quota unset", "CLI quota set")
	for _, m := range [][]string{{"quota", "set", "alice", "-1"}, {"quota", "set", "alice", "1.5"}, {"quota", "set", "", "1"}, {"quota", "set", "alice"}, {"quota"}, {"quota", "set", "alice", "1", "--policy=nope"}} {
		c.want(2, m)
	}
}

// Every command that names a key finds by the key, and by its hash, what is kept of it.
func TestCommandsWithHashKeysTellKeysOnlyAsHashes(t *testing.T) { // case 164
	c := newCommand(t)
	if err := os.WriteFile("keys.secret", []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var hashed string
	want := func(status int, args []string, texts ...string) {
		t.Helper()
		if got := c.want(status, append(args, long, "--limit=2"), append(texts, hashed)...); strings.Contains(got, "sk_live_abc") {
			t.Errorf("%q prints the key:\n%s", args, got)
		}
	}
	t.Setenv("RATELIMITLOG_HASH_KEYS", "keys.secret")
	var hit struct{ Key string }
	decode(t, c.want(0, []string{"hit", "sk_live_abc", long, "--json"}), &hit)
	hashed = hit.Key
	for _, key := range []string{"sk_live_abc", hashed} {
		want(0, []string{"status", key, "--json"}, `"count":1,`)
		want(0, []string{"calls", "--key=" + key, "--csv"}, "true")
		c.want(0, []string{"calls", "--key=" + key}, "allowed", hashed[:20]+"…") // too long for a table
		want(0, []string{"quota", "set", key, "5"}, "has the limit 5")
		want(0, []string{"quota", "get", key}, "has the limit 5")
		want(0, []string{"quota", "list"}, "has the limit 5")
		want(0, []string{"quota", "unset", key}, "has no limit of its own")
		want(2, []string{"quota", "get", key}, "no quota named")
		want(0, []string{"reset", key}, "starts anew")
		want(0, []string{"reset", key, "--json"}, `"reset":"done"`)
		want(0, []string{"status", key, "--json"}, `"count":0,`)
		want(0, []string{"hit", "sk_live_abc", "--json"}, `"count":1,`)
	}
	hashed = ""
	want(0, []string{"hit", hit.Key, "--json"}, `"count":1,`) // to a hit a key of its own
	want(0, []string{"status", "sk_live_abc", "--json", "--hash-keys=keys.secret"}, `"count":1,`)
}

func TestTheLogTellsWhoRanACommandThatChangedSomething(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"hit", "k", long})
	c.want(0, []string{"reset", "k", long})
	c.want(0, []string{"quota", "set", "k", "5", long})
	c.want(0, []string{"quota", "unset", "k", long})
	got := query[string](t, "ratelimitlog.db", `SELECT group_concat(kind || ':' || coalesce(actor, 'nobody'), ' ') FROM (SELECT * FROM api_calls ORDER BY id)`)
	if by := "cli [^ ]+"; !regexp.MustCompile("^hit:nobody reset:" + by + " quota_set:" + by + " quota_unset:" + by + "$").MatchString(got) {
		t.Errorf("the log has %q", got)
	}
	if host, err := os.Hostname(); err == nil && !strings.Contains(got, "@"+host) {
		t.Errorf("the log has %q, which lacks the host %q", got, host)
	}
}

func TestStatusAndResetOfSeveralPolicies(t *testing.T) {
	c := newCommand(t)
	if err := os.WriteFile("p.yaml", []byte("policies: {a: {limit: 5, window: 36500d}, b: {limit: 7, window: 36500d}, default: {limit: 9, window: 36500d}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RATELIMITLOG_POLICIES", "p.yaml")
	c.want(0, []string{"hit", "k", "--policy=a,b"})
	c.want(0, []string{"status", "k", "--policy=b,a"}, "policy b: 6 of 7 left", "policy a: 4 of 5 left")
	c.want(0, []string{"status", "k", "--all", "--json"}, `{"key":"k","counters":[{"policy":"a",`, `"policy":"default"`)
	c.want(0, []string{"reset", "k", "--policy=a"}, `policy a: "k" starts anew`)
	c.want(0, []string{"status", "k", "--all"}, "policy a: 5 of 5 left", "policy b: 6 of 7 left")
	c.want(0, []string{"reset", "k", "--all"}, "policy a:", "policy b:", "policy default:")
	c.want(0, []string{"status", "k", "--all"}, "policy b: 7 of 7 left")
	c.want(2, []string{"status", "k", "--policy=a,a"}, `policies name "a" twice`)
}

func TestPolicyFiles(t *testing.T) {
	c := newCommand(t)
	example := c.want(0, []string{"policies", "example"})
	if err := os.WriteFile("example.yaml", []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(0, []string{"policies", "check", "example.yaml"}, "example.yaml: 3 policies and 2 routes, all right")
	c.want(0, []string{"policies", "list", "--policies=example.yaml"}, "default: 60 per fixed 1m\nlogin: 5 per sliding 15m\nmonthly: 100000 per calendar month Asia/Tokyo, in shadow, logs refused sample 0.1, keeps calls for 30d, keeps 100000 calls at most\n")
	c.want(0, []string{"hit", "k", "--policies=example.yaml", "--policy=login,monthly", "--cost=5"}, "policy login: 0 of 5 left", "policy monthly in shadow: 99995 of 100000 left")
	c.want(3, []string{"hit", "k", "--policies=example.yaml", "--policy=monthly,login"}, "refused", "policy monthly in shadow: 99995 of 100000 left", "(attempted 6, refused 1)")
	if err := os.WriteFile("bad.yaml", []byte("policies:\n  a: {limit: 1}\n  b: {window: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(1, []string{"policies", "check", "bad.yaml"}, "bad.yaml:2:3: policy a has no window", "bad.yaml:3:3: policy b has no limit")
	c.want(1, []string{"serve", "--addr=127.0.0.1:0", "--policies=bad.yaml"}, "bad.yaml:2:3")
	c.want(1, []string{"policies", "check", "none.yaml"}, "none.yaml")
}

// "Until" is when a unit fits again, also where a window slides: not its end.
func TestStatusSaysUntilWhenAWindowIsFull(t *testing.T) {
	c := newCommand(t)
	sliding := []string{"--limit=1", "--window=sliding 36500d"}
	c.want(0, append([]string{"hit", "alice"}, sliding...), "0 of 1 left until")
	stdout := c.want(0, append([]string{"status", "alice"}, sliding...), "0 of 1 left until")
	until, err := time.Parse(time.RFC3339, regexp.MustCompile(`until (\S+)`).FindStringSubmatch(stdout)[1])
	if err != nil {
		t.Fatal(err)
	}
	// The unit weighs in, rounded up, until all of its window has slid out.
	if want := time.Unix(2*36500*86400, 0); until.Before(want.Add(-time.Second)) || until.After(want) {
		t.Errorf("until %s, want %s", until, want)
	}
}

func TestStatusWarnsWhereTheLogHasOtherPolicies(t *testing.T) {
	c := newCommand(t)
	if err := os.WriteFile("policies.yaml", []byte("policies: {login: {limit: 5, window: 1m}, default: {limit: 60, window: 1m}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--addr=127.0.0.1:0", "--policies=policies.yaml"}, io.Discard, io.Discard)
	}()
	logged := func() bool { _, stdout, _ := c.run("calls"); return strings.Contains(stdout, "login") }
	for begun := time.Now(); !logged(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the policies are never in the log")
		}
	}
	stop()
	if status := <-ended; status != 0 {
		t.Fatalf("serve: %d", status)
	}
	c.want(0, []string{"status", "alice"}, "by the log a server has other policies in force than these settings make (login)")
	if _, _, stderr := c.run("status", "alice", "--policies=policies.yaml"); stderr != "" {
		t.Errorf("with the server's settings: %s", stderr)
	}
	c.want(0, []string{"status", "alice", "--limit=7"}, "(default, login)")
}
