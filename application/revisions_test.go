package application_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

func rulesOf(t testing.TB, file string) domain.Rules {
	t.Helper()
	rules, err := policyfile.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func revisionOf(t testing.TB, file string) string {
	t.Helper()
	rules, err := application.NewRules(rulesOf(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return rules.Revision()
}

func TestARevisionIsOfWhatTheRulesSayNotOfHowTheySayIt(t *testing.T) {
	const plain = `policies: {a: {limit: 1, window: 1m}, b: {limit: unlimited, window: calendar day}}
routes: [{path: /x, methods: [GET, POST], key: bearer, policies: [a, b]}, {path: /y/*, key: constant c, policies: [a]}]
client_address: {trusted_proxies: [10.0.0.0/8, 127.0.0.1]}
`
	const wordy = `routes:
  - {path: /y/*, key: constant c, fallback: client address, policies: [a]}
  - {path: /X/, methods: [POST, HEAD, GET], key: bearer, policies: [a, b]}
policies:
  b: {limit: "unlimited", window: calendar day UTC, audit: {log: all, sample: 1}, shadow: false}
  a: {limit: 1, window: fixed 60s, on_store_error: closed}
client_address: {trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], header: X-Forwarded-For, ipv6_prefix: 64}
`
	revision := revisionOf(t, plain)
	if len(revision) != 12 {
		t.Errorf("the revision is %q", revision)
	}
	if got := revisionOf(t, wordy); got != revision {
		t.Errorf("said in other words it is %s, not %s", got, revision)
	}
	seen := map[string]string{revision: "the rules"}
	const head = "policies: {b: {limit: 1, window: 1m}, a: {limit: 1, window: 1m"
	for name, file := range map[string]string{
		"two policies": head + "}}", "limit": "policies: {b: {limit: 1, window: 1m}, a: {limit: 2, window: 1m}}", "window": "policies: {b: {limit: 1, window: 1m}, a: {limit: 1, window: sliding 1m}}",
		"another name": "policies: {b: {limit: 1, window: 1m}, c: {limit: 1, window: 1m}}", "one policy": "policies: {a: {limit: 1, window: 1m}}",
		"shadow": head + ", shadow: true}}", "open": head + ", on_store_error: open}}", "log": head + ", audit: {log: off}}}", "sample": head + ", audit: {sample: 0.5}}}",
		"keep": head + ", audit: {keep: 1d}}}", "rows": head + ", audit: {max_rows: 1}}}",
		"route": head + "}}\nroutes: [{path: /x, key: bearer, policies: [a]}]", "path": head + "}}\nroutes: [{path: /y, key: bearer, policies: [a]}]",
		"methods": head + "}}\nroutes: [{path: /x, methods: [GET], key: bearer, policies: [a]}]", "key": head + "}}\nroutes: [{path: /x, key: constant bearer, policies: [a]}]",
		"fallback": head + "}}\nroutes: [{path: /x, key: bearer, fallback: constant c, policies: [a]}]", "policies": head + "}}\nroutes: [{path: /x, key: bearer, policies: [b]}]",
		"proxies": head + "}}\nclient_address: {trusted_proxies: [10.0.0.0/8]}", "header": head + "}}\nclient_address: {header: Forwarded}", "prefix": head + "}}\nclient_address: {ipv6_prefix: 56}",
	} {
		revision := revisionOf(t, file)
		if other, known := seen[revision]; known {
			t.Errorf("%s and %s have the revision %s", name, other, revision)
		}
		seen[revision] = name
	}
}

// rulesLog drives LogRules on a store and tells what it has logged.
type rulesLog struct {
	t     *testing.T
	log   domain.AuditLog
	last  int64
	units domain.UnitOfWork
}

// with logs the rules of a file by a new limiter and returns what the log has since.
func (r *rulesLog) with(file string) (said []string) {
	r.t.Helper()
	rules, err := application.NewRules(rulesOf(r.t, file))
	if err != nil {
		r.t.Fatal(err)
	}
	l, stop := application.NewLimiter(rules, application.Stores{Units: r.units}, newClock(newYear).options())
	defer stop()
	origin := domain.Origin{Method: "START", Path: "f.yaml", RequestID: "not this", Actor: "serve h:1"}
	if err := l.LogRules(r.t.Context(), newYear, origin); err != nil {
		r.t.Fatal(err)
	}
	origin.RequestID = rules.Revision()
	calls, err := r.log.Calls(r.t.Context(), domain.CallQuery{After: r.last, OldestFirst: true, Limit: application.MaxPage})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, call := range calls {
		r.last = call.ID
		text := fmt.Sprint(call.Kind, " ", call.Policy)
		if call.Kind == domain.CallPolicySet {
			text += fmt.Sprintf(" %s %s %v %q", domain.FormatLimit(call.Limit), call.Schedule, call.Shadow, call.Coverage)
		}
		said = append(said, text)
		if call.Origin != origin || !call.At.Equal(newYear) || call.Key != "" || call.Cost+call.Hits+call.Count+call.Refused != 0 || !call.Allowed || !call.WindowStart.IsZero() {
			r.t.Errorf("the log has %+v", call)
		}
	}
	return said
}

// forEachLog runs a test on stores that are empty.
func forEachLog(t *testing.T, test func(t *testing.T, open func() domain.UnitOfWork)) {
	t.Run("SQLite", func(t *testing.T) { s := openStore(t); test(t, func() domain.UnitOfWork { return s }) })
	t.Run("memory", func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		test(t, func() domain.UnitOfWork { return s })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := servicetest.Postgres(t)
		test(t, func() domain.UnitOfWork {
			s, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}

func TestTheLogSaysWhichPoliciesCameIntoForceAndWhichWent(t *testing.T) {
	forEachLog(t, func(t *testing.T, open func() domain.UnitOfWork) {
		s := open()
		r := &rulesLog{t: t, log: s.(domain.AuditLog), units: s}
		for i, step := range []struct {
			file string
			want []string
		}{
			{"policies: {b: {limit: unlimited, window: sliding 10s, shadow: true}, a: {limit: 5, window: 1m, audit: {log: refused, keep: 1d}}}",
				[]string{`policy_set a 5 fixed 1m false "refused"`, `policy_set b unlimited sliding 10s true ""`}},
			{"policies: {a: {limit: 5, window: 60s, audit: {log: refused, keep: 24h}}, b: {limit: unlimited, window: sliding 10s, shadow: true}}", nil}, // the same
			{"policies: {a: {limit: 6, window: 60s}, b: {limit: unlimited, window: sliding 10s}}", []string{`policy_set a 6 fixed 1m false ""`, `policy_set b unlimited sliding 10s false ""`}},
			{"policies: {a: {limit: 6, window: 60s}, b: {limit: 0, window: sliding 10s}}", []string{`policy_set b 0 sliding 10s false ""`}},
			{"policies: {a: {limit: 6, window: 60s}, c: {limit: 1, window: 1s}}", []string{`policy_removed b`, `policy_set c 1 fixed 1s false ""`}},
			{"policies: {a: {limit: 6, window: 60s}, c: {limit: 1, window: 1s}}", nil},
			{"policies: {a: {limit: 6, window: 60s}, c: {limit: 1, window: 2s}}", []string{`policy_set c 1 fixed 2s false ""`}},
			{"policies: {a: {limit: 6, window: 60s}, b: {limit: 0, window: sliding 10s}, c: {limit: 1, window: 2s}}", []string{`policy_set b 0 sliding 10s false ""`}}, // it is back
			{"policies: {a: {limit: 6, window: 60s}}", []string{`policy_removed b`, `policy_removed c`}},
			// What calls do not tell: all are said again with the new revision.
			{"policies: {a: {limit: 6, window: 60s, on_store_error: open}}", []string{`policy_set a 6 fixed 1m false ""`}},
			{"policies: {a: {limit: 6, window: 60s, on_store_error: open, audit: {keep: 30d}}}", []string{`policy_set a 6 fixed 1m false ""`}},
			{"policies: {a: {limit: 6, window: 60s, on_store_error: open, audit: {keep: 30d}}}", nil},
			{"policies: {a: {limit: 6, window: 60s}}\nroutes: [{path: /x, key: bearer, policies: [a]}]", []string{`policy_set a 6 fixed 1m false ""`}},
		} {
			if got := r.with(step.file); !slices.Equal(got, step.want) {
				t.Errorf("step %d: the log says %q, want %q", i+1, got, step.want)
			}
		}
	})
}

func TestWhatTheLogSaysIsFoundPagesBack(t *testing.T) {
	s := memstore.New(memstore.Options{})
	r := &rulesLog{t: t, log: s, units: s}
	r.with("policies: {a: {limit: 1, window: 1m}, b: {limit: 1, window: 1m}, gone: {limit: 1, window: 1m}}")
	many := make([]domain.Call, 3*application.MaxPage)
	for i := range many {
		many[i] = domain.Call{Kind: domain.CallPolicySet, Policy: "c", Allowed: true, Limit: int64(i), Schedule: "fixed 1m"}
	}
	if err := s.Append(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	r.last += int64(len(many))
	want := []string{`policy_set b 2 fixed 1m false ""`, `policy_removed c`, `policy_removed gone`}
	if got := r.with("policies: {a: {limit: 1, window: 1m}, b: {limit: 2, window: 1m}}"); !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

func TestServersThatStartTogetherLogTheirRulesOnce(t *testing.T) {
	const servers = 8
	forEachLog(t, func(t *testing.T, open func() domain.UnitOfWork) {
		rules, err := application.NewRules(rulesOf(t, "policies: {a: {limit: 1, window: 1m}, b: {limit: 1, window: 1m}}"))
		if err != nil {
			t.Fatal(err)
		}
		var store domain.UnitOfWork
		var wg sync.WaitGroup
		together := make(chan struct{})
		for range servers {
			store = open()
			l, stop := application.NewLimiter(rules, application.Stores{Units: store}, application.Options{Timeout: 10 * time.Second})
			defer stop()
			wg.Go(func() {
				<-together
				if err := l.LogRules(context.Background(), newYear, domain.Origin{}); err != nil {
					t.Error(err)
				}
			})
		}
		close(together)
		wg.Wait()
		calls, err := store.(domain.AuditLog).Calls(t.Context(), domain.CallQuery{Limit: 100})
		if err != nil || len(calls) != 2 {
			t.Errorf("the log has %+v, %v; want each policy once", calls, err)
		}
	})
}

func TestRulesThatCannotBeLoggedAreUnavailableAndLeaveNothing(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 1)
	var fails atomic.Bool
	fails.Store(true)
	s.set(func() error {
		if fails.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	if err := l.LogRules(t.Context(), newYear, domain.Origin{}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
	fails.Store(false)
	for range 2 {
		if err := l.LogRules(t.Context(), newYear, domain.Origin{}); err != nil {
			t.Error(err)
		}
	}
	if calls := callsOf(t, s.store.(domain.AuditLog), ""); len(calls) != 1 {
		t.Errorf("the log has %+v", calls)
	}
}
