package ratelimitlog_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// testEngine is an engine that tests run on.
type testEngine struct {
	name string
	// configure points the configuration at a store that nobody else uses, the same
	// one at each call within a test.
	configure func(t testing.TB) func(*ratelimitlog.Config)
}

var testEngines = []testEngine{
	{"SQLite", func(t testing.TB) func(*ratelimitlog.Config) {
		dsn := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
		return func(c *ratelimitlog.Config) { c.DSN = dsn }
	}},
	{"PostgreSQL", func(t testing.TB) func(*ratelimitlog.Config) {
		dsn := servicetest.Postgres(t)
		return func(c *ratelimitlog.Config) { c.DSN, c.Migrate = dsn, true }
	}},
	{"Redis", func(t testing.TB) func(*ratelimitlog.Config) {
		dsn, audit := servicetest.Redis(t), "sqlite:"+filepath.Join(t.TempDir(), "audit.db")
		return func(c *ratelimitlog.Config) { c.DSN, c.AuditDSN = dsn, audit }
	}},
	{"SQLite in memory", func(testing.TB) func(*ratelimitlog.Config) {
		return func(c *ratelimitlog.Config) { c.DSN = "sqlite::memory:" }
	}},
}

// forEachEngine runs a test on each engine.
func forEachEngine(t *testing.T, test func(t *testing.T, configure func(*ratelimitlog.Config))) {
	for _, engine := range testEngines {
		t.Run(engine.name, func(t *testing.T) { test(t, engine.configure(t)) })
	}
}

const contractPolicies = `policies:
  default: {limit: 3, window: 1m}
  burst: {limit: 2, window: 1s}
  daily: {limit: 5, window: calendar day Asia/Tokyo}
  slide: {limit: 4, window: sliding 10s}
  shadow: {limit: 1, window: 1h, shadow: true}
  free: {limit: unlimited, window: 1m}
  blocked: {limit: 0, window: 1m}
routes:
  - {path: /ping, methods: [GET], key: header X-Client-Key, policies: [default]}
  - {path: /both/*, key: client address, policies: [daily, shadow]}
`

// contract are requests, one after the other: method, target, maybe a body, or the
// time to pass.
var contract = strings.Split(strings.TrimSpace(`
GET /ping
GET /ping
HEAD /ping
GET /ping
GET /ping
GET /status?key=k
GET /status?key=other&policy=daily
POST /v1/hits {"key":"k","policies":["burst","daily"]}
POST /v1/hits {"key":"k","policies":["daily","burst"],"cost":1}
POST /v1/hits {"key":"k","policies":["burst","daily"],"cost":1}
POST /v1/hits {"key":"k","policies":["burst","daily"],"cost":0}
POST /v1/hits {"key":"k","policies":["daily"],"cost":6}
POST /v1/hits {"key":"k","policies":["nope"]}
POST /v1/hits {"key":"k","policies":["free","blocked"]}
POST /v1/hits {"key":"k","policies":["free"],"cost":999999999999999}
POST /v1/hits {"key":"k","policies":["shadow"]}
POST /v1/hits {"key":"k","policies":["shadow"]}
POST /v1/hits {"key":"\u00e9 '%_\"","policies":["slide"],"cost":3}
POST /v1/hits {"key":"E\u0301","policies":["slide"],"cost":3}
POST /v1/hits {"key":"s","policies":["slide"],"cost":4}
POST /v1/hits {"key":"s","policies":["slide"]}
wait 10s
POST /v1/hits {"key":"s","policies":["slide"]}
wait 2500ms
POST /v1/hits {"key":"s","policies":["slide"]}
POST /v1/hits {"key":"s","policies":["slide"]}
POST /v1/hits {"key":"k","policies":["burst","daily"]}
GET /both/x
GET /both/../both/y/
GET /v1/counters?key=k
GET /v1/counters?key=ip:127.0.0.1&policy=shadow
DELETE /v1/counters?key=k&policy=default
GET /status?key=k
PUT /v1/quotas?policy=default&key=k {"limit":1}
GET /v1/quotas?policy=default&key=k
GET /v1/quotas?policy=default
GET /ping
GET /ping
PUT /v1/quotas?policy=default&key=k {"limit":"unlimited"}
GET /ping
DELETE /v1/quotas?policy=default&key=k
GET /v1/quotas?policy=default&key=k
DELETE /v1/counters?key=k
GET /v1/counters?key=k
wait 26h
GET /v1/counters?key=k
POST /v1/hits {"key":"k","policies":["daily"],"cost":5}
POST /v1/hits {"key":"k","policies":["daily"]}
GET /v1/policies
GET /v1/usage?by=policy&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z
GET /v1/usage?by=day&zone=Asia/Tokyo&policy=daily&from=2026-01-01T00:00:00Z&to=2026-01-04T00:00:00Z
GET /v1/usage?by=week
GET /v1/explain?key=nobody&policy=slide&at=2026-01-01T00:00:20Z
GET /v1/explain?key=nobody&at=2026-01-01
GET /v1/explain?key=k&policy=nope
GET /v1/explain?key=s&at=2026-01-01T00:00Z
GET /v1/explain?key=k&at=1969-12-31T23:59Z
GET /v1/usage?by=day&top=3
GET /v1/usage?zone=UTC
GET /v1/calls?to=0001-01-01T00:00:00Z
GET /v1/calls?key=k&limit=2
GET /v1/calls?key=k&limit=2&order=asc&cursor=YTk
GET /v1/calls?kind=reset,quota_set,quota_unset&order=asc
GET /v1/calls?policy=slide&allowed=false&limit=1
GET /v1/calls?from=2026-01-01T00:00:10Z&to=2026-01-01T00:00:10.001Z&path=/ping&limit=1
GET /v1/calls?limit=0
GET /v1/calls/1
GET /v1/calls/8
GET /v1/calls/1000
GET /healthz
GET /readyz
GET /nope
POST /ping
PUT /v1/quotas?policy=default&key=k {"limit":-1}
GET /status
`), "\n")

// transcript is what a server answers to the contract.
func transcript(t *testing.T, s *service) string {
	t.Helper()
	var b strings.Builder
	actor := s.rulesInLog(t)[0].Actor
	for _, line := range contract {
		method, rest, _ := strings.Cut(line, " ")
		if method == "wait" {
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			s.clock.advance(d)
			continue
		}
		target, body, _ := strings.Cut(rest, " ")
		a := s.send(t, http.DefaultClient, method, target, body, append(bearer(adminToken), "X-Client-Key", "k", "X-Request-ID", "r")...)
		// Some calls are logged some time later, or before the log is read: after that they
		// have the same IDs everywhere.
		s.do(t, "GET", "/v1/calls?limit=1", "")
		// The server's name for itself is another in each run, and of another length.
		if body := strings.ReplaceAll(a.body, actor, "serve HOST:PID"); body != a.body {
			a.wantHeader(t, "Content-Length", strconv.Itoa(len(a.body)))
			a.header.Set("Content-Length", strconv.Itoa(len(body)))
			a.body = body
		}
		fmt.Fprintf(&b, "%s\n%d\n", line, a.status)
		var names []string
		for name := range a.header {
			if name != "Date" {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(a.header[name], " | "))
		}
		fmt.Fprintf(&b, "%s\n\n", a.body)
	}
	return b.String()
}

// contractFile is what every engine answers; UPDATE_CONTRACT=1 writes it anew.
const contractFile = "interfaces/httpapi/testdata/contract.txt"

// All engines answer alike, byte for byte, by the same clock.
func TestAllEnginesAnswerAlike(t *testing.T) { // cases 101, 148
	golden, err := os.ReadFile(contractFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	compare := func(t *testing.T, got string) {
		t.Helper()
		if os.Getenv("UPDATE_CONTRACT") != "" {
			golden = []byte(got)
			if err := os.WriteFile(contractFile, golden, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got == string(golden) {
			return
		}
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(golden), "\n")
		for i := range min(len(gotLines), len(wantLines)) {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("line %d of the contract:\n%s\nwant\n%s", i+1, gotLines[i], wantLines[i])
			}
		}
		t.Fatalf("the transcript has %d lines, want %d", len(gotLines), len(wantLines))
	}
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		compare(t, transcript(t, servePoliciesWith(t, contractPolicies, func(c *ratelimitlog.Config) { configure(c); c.AdminToken = adminToken })))
	})
	t.Run("adapters that are passed in", func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		stores := ratelimitlog.Stores{
			Limiter: application.Stores{Units: store, Counter: store, Sweeper: store, Quotas: store}, Log: store, Ready: alwaysReady{},
		}
		file := filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(contractPolicies), 0o600); err != nil {
			t.Fatal(err)
		}
		compare(t, transcript(t, serveOn(t, &stores, func(c *ratelimitlog.Config) { c.PolicyFile, c.AdminToken = file, adminToken })))
	})
}

// alwaysReady is the readiness of a store that cannot fail.
type alwaysReady struct{}

func (alwaysReady) Ping(context.Context) error { return nil }

// A reset or a quota through one server is noticed by another on the same store,
// which refuses from memory, within a second.
func TestServersOnOneStoreNoticeEachOthersResets(t *testing.T) { // case 125
	for _, engine := range testEngines {
		if engine.name == "SQLite in memory" {
			continue // it cannot be shared
		}
		t.Run(engine.name, func(t *testing.T) {
			configure := engine.configure(t)
			serveOne := func() *service {
				return serve(t, func(c *ratelimitlog.Config) {
					configure(c)
					c.Now, c.Limit, c.Window, c.AdminToken = time.Now, "1", "36500d", adminToken
				})
			}
			one, other := serveOne(), serveOne()
			for range 20 { // by the end from memory
				one.ping(t, "k")
			}
			for _, change := range []func() answer{
				func() answer { return other.do(t, "DELETE", "/v1/counters?key=k", "") },
				func() answer { return other.do(t, "PUT", "/v1/quotas?policy=default&key=k", `{"limit":1000000}`) },
			} {
				if a := one.ping(t, "k"); a.status != 429 {
					t.Fatalf("%d %s", a.status, a.body)
				}
				if a := change(); a.status >= 300 {
					t.Fatalf("%d %s", a.status, a.body)
				}
				begun := time.Now()
				for one.ping(t, "k").status != 200 {
					if time.Since(begun) > 20*time.Second {
						t.Fatal("the other server never notices")
					}
				}
				t.Logf("noticed after %s", time.Since(begun).Round(time.Millisecond))
			}
		})
	}
}

func TestASchemaThatIsOlderIsRefusedWithWhatToDo(t *testing.T) {
	config := ratelimitlog.Config{DSN: servicetest.Postgres(t)}
	if _, _, err := ratelimitlog.NewServer(t.Context(), config); err == nil || !strings.Contains(err.Error(), "run ratelimitlog migrate") {
		t.Errorf("err = %v", err)
	}
	for range 2 {
		if err := ratelimitlog.Migrate(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	_, cleanup, err := ratelimitlog.NewServer(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	cleanup()
}

func TestNoErrorTellsAPassword(t *testing.T) {
	for _, dsn := range []string{
		"mysql://root:s3cret@h/db", "postgres://u:s3cret@127.0.0.1:1/db", "postgres://u:s3cret@[bad/db", "postgres://u:s3cret@h/db?sslmode=nope",
		"redis://u:s3cret@127.0.0.1:1", "redis://u:s3cret@h:notaport", "redis://u:s3cret@127.0.0.1:1?nope=1", "host=h password=s3cret", "mysql:s3cret@h", "s3cret", "postgres://h/db?password=s3cret&nope=1", "rediss://:s3cret@127.0.0.1:1",
	} {
		var log buffer
		server, cleanup, err := ratelimitlog.NewServer(t.Context(), ratelimitlog.Config{DSN: dsn, AuditDSN: "sqlite::memory:", LogTo: &log, LogLevel: "debug"})
		if err == nil {
			cleanup()
		}
		if said := fmt.Sprint(err, server != nil, log.String()); strings.Contains(said, "s3cret") {
			t.Errorf("%s: %s", dsn, said)
		}
	}
}
