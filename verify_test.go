package ratelimitlog_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// verify is what the verifier finds in the store of a configuration.
func verify(t testing.TB, config ratelimitlog.Config) application.Verification {
	t.Helper()
	return verifyExpecting(t, config, application.Expected{})
}

func verifyExpecting(t testing.TB, config ratelimitlog.Config, expected application.Expected) application.Verification {
	t.Helper()
	verifier, cleanup, err := ratelimitlog.NewVerifier(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	found, err := verifier.Verify(context.Background(), expected, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantFaults checks how many faults there are, and that one of them says each of the texts.
func wantFaults(t testing.TB, found application.Verification, texts ...string) {
	t.Helper()
	var all []string
	for _, f := range found.Faults {
		all = append(all, fmt.Sprintf("%s %d %s %s: %s", f.Table, f.ID, f.Policy, f.Key, f.Detail))
	}
	said := strings.Join(all, "\n")
	if len(texts) == 0 && found.FaultCount != 0 {
		t.Errorf("found\n%s", said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("found\n%s\nwhich lacks %q", said, text)
		}
	}
}

const auditedPolicies = `policies:
  default: {limit: 3, window: 1m}
  slide: {limit: 5, window: sliding 10s}
  month: {limit: 1000, window: calendar month Asia/Tokyo}
  shadow: {limit: 2, window: 1h, shadow: true}
`

// aLog makes hits of all sorts: on several keys and policies, refused by the store and
// from memory, of several costs, sliding, in shadow, after a reset, with a quota, and in
// windows that are over.
func aLog(t testing.TB, config ratelimitlog.Config) *clock {
	t.Helper()
	clock := newClock(newYear.Add(10 * time.Second))
	config.Now = clock.now
	config.PolicyFile = filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(config.PolicyFile, []byte(auditedPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	limiter, stop, err := ratelimitlog.NewLimiter(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	hit := func(key string, cost int64, policies ...string) {
		t.Helper()
		if _, err := limiter.Hit(t.Context(), domain.Hit{Key: key, Policies: policies, Cost: cost, Origin: domain.Origin{Method: "GET", Path: "/x"}}); err != nil {
			t.Fatal(err)
		}
	}
	for minute := range 3 {
		for key := range 4 {
			for range 5 {
				hit(fmt.Sprint("key-", key), 1, "default", "month", "shadow")
				hit(fmt.Sprint("key-", key), 2, "slide")
			}
		}
		hit("key-0", 3, "default")
		if minute == 1 {
			if err := limiter.ResetAll(t.Context(), "key-1", domain.Origin{}); err != nil {
				t.Fatal(err)
			}
			if err := limiter.SetQuota(t.Context(), domain.Quota{Policy: "default", Key: "key-2", Limit: 4}, domain.Origin{}); err != nil {
				t.Fatal(err)
			}
			hit("key-1", 1, "default", "month")
		}
		if err := limiter.Sync(t.Context()); err != nil { // no refusal comes later
			t.Fatal(err)
		}
		clock.advance(time.Minute)
	}
	hit("last", 1, "default")
	return clock
}

func TestLogAndCountersAgreeWhateverWasHit(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		for _, chained := range []bool{false, true} {
			var config ratelimitlog.Config
			configure(&config)
			if config.DSN == "sqlite::memory:" {
				continue // nobody else can look at it
			}
			config.TamperEvident = chained
			clock := aLog(t, config)
			config.Now = clock.now
			found := verify(t, config)
			wantFaults(t, found)
			reset := int64(0) // windows that cannot be told where the log is apart
			if strings.HasPrefix(config.DSN, "redis") {
				reset = 3
			}
			if found.Calls < 100 || found.Windows < 12 || found.Uncovered != reset || found.Chained != chained {
				t.Errorf("verified %+v", found)
			}
		}
	})
}

// Each change by hand is found, and the row told where it was made or shows.
func TestChangesByHandAreFound(t *testing.T) {
	type change struct {
		name, statement string
		says            []string
		chainedOnly     bool // it keeps the sums
	}
	const call = `(SELECT id FROM api_calls WHERE key = 'key-3' AND policy = 'month' AND allowed ORDER BY id LIMIT 1 OFFSET 2)`
	changes := []change{
		{"a call's cost", `UPDATE api_calls SET cost = 2 WHERE id = ` + call, []string{"api_calls ID month key-3: the window's count"}, false},
		{"a call's count", `UPDATE api_calls SET count = count + 1 WHERE id = ` + call, []string{"api_calls ID month key-3: the window's count"}, false},
		{"a call's outcome", `UPDATE api_calls SET allowed = NOT allowed WHERE id = ` + call, []string{"api_calls ID month key-3: the window's count"}, false},
		{"a call's window", `UPDATE api_calls SET window_start = '2026-01-01T00:00:00Z' WHERE id = ` + call, []string{"api_calls ID month key-3: the call was made at"}, false},
		{"a call's key", `UPDATE api_calls SET key = 'other' WHERE id = ` + call, []string{"api_calls ID month other: the window's count"}, false},
		{"a call is gone", `DELETE FROM api_calls WHERE id = ` + call, []string{"month key-3: the window's count"}, false},
		{"the last call is gone", `DELETE FROM api_calls WHERE id = (SELECT max(id) FROM api_calls)`, []string{"rate_limit_windows 0 default last: count is 1"}, false},
		{"a call is there twice", `INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule, hash)
SELECT called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule, hash FROM api_calls WHERE id = ` + call,
			[]string{"month key-3: the window's count"}, false},
		{"a call more with the right count", `INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule)
SELECT called_at, kind, policy, key, cost, hits, allowed, shadow, count + 1, refused, "limit", window_start, method, path, request_id, schedule FROM api_calls WHERE key = 'last'`,
			[]string{"default last: count is 1 and refused 0, and by the log"}, false},
		{"a counter", `UPDATE rate_limit_windows SET count = count - 1 WHERE key = 'key-3' AND policy = 'month'`, []string{"rate_limit_windows ", "month key-3: count is"}, false},
		{"a counter's refused units", `UPDATE rate_limit_windows SET refused = refused - 1 WHERE key = 'key-3' AND policy = 'shadow'`, []string{"shadow key-3: count is"}, false},
		{"a counter is gone", `DELETE FROM rate_limit_windows WHERE key = 'key-3' AND policy = 'month'`, []string{"month key-3: count is 0 and refused 0, and by the log"}, false},
		{"a counter too many", `INSERT INTO rate_limit_windows SELECT policy, 'nobody', schedule, window_start, count, refused, expires_at FROM rate_limit_windows WHERE key = 'key-3' AND policy = 'month'`,
			[]string{"rate_limit_windows 0 month nobody: count is", "the log has no call of the window"}, false},
		{"when a counter may be forgotten", `UPDATE rate_limit_windows SET expires_at = '2026-01-01T00:00:00Z' WHERE key = 'key-3' AND policy = 'month'`,
			[]string{"rate_limit_windows 0 month key-3: expires_at is 2026-01-01T00:00:00Z, it should be 2026-02-28T15:00:00Z"}, false},
		{"a quota", `INSERT INTO rate_limit_quotas SELECT policy, 'mallory', NULL, removed, changed_at, revision + 1 FROM rate_limit_quotas`,
			[]string{"rate_limit_quotas 0 default mallory: the limit is unlimited, and the log has no call that set it"}, false},
		{"a quota's limit", `UPDATE rate_limit_quotas SET "limit" = 5`, []string{"rate_limit_quotas 0 default key-2: the limit is 5, and by the log it is 4"}, false},
		{"a quota is gone", `DELETE FROM rate_limit_quotas`, []string{"rate_limit_quotas 0 default key-2: by the log the limit is 4, and there is no row"}, false},
		{"a call's path", `UPDATE api_calls SET path = '/y' WHERE id = ` + call, []string{"api_calls ID month key-3: the hash of the call does not fit"}, true},
		{"a call's actor", `UPDATE api_calls SET actor = 'nobody' WHERE kind = 'reset' AND policy = 'month'`, []string{"month key-1: the hash of the call does not fit"}, true},
		{"a whole window in both tables", `DELETE FROM rate_limit_windows WHERE key = 'last'; DELETE FROM api_calls WHERE key = 'last'`, []string{"the last calls of the chain of policy default are missing"}, true},
		{"the chains", `DELETE FROM api_call_chains`, []string{"api_call_chains 0  : calls have hashes"}, true},
		{"a chain", `DELETE FROM api_call_chains WHERE policy = 'month'`, []string{"api_call_chains 0 month : calls have hashes, and there is no row of the chain of policy month"}, true},
		{"the chain of administrators", `DELETE FROM api_call_chains WHERE policy = ''`, []string{"api_call_chains 0  : calls have hashes, and there is no row of the chain of what administrators and servers did"}, true},
		{"a call's hash", `UPDATE api_calls SET hash = NULL WHERE id = ` + call, []string{"api_calls ID month key-3: the call has no hash"}, true},
	}
	for name, engine := range map[string]struct {
		driver string
		config func(*testing.T) ratelimitlog.Config
	}{
		"SQLite": {"sqlite3", func(t *testing.T) ratelimitlog.Config {
			return ratelimitlog.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
		}},
		"PostgreSQL": {"pgx", func(t *testing.T) ratelimitlog.Config {
			return ratelimitlog.Config{DSN: servicetest.Postgres(t), Migrate: true}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					for _, chained := range []bool{false, true} {
						config := engine.config(t)
						config.TamperEvident, config.StoreTimeout = chained, patience
						clock := aLog(t, config)
						config.Now = clock.now
						db, err := sql.Open(engine.driver, strings.TrimPrefix(config.DSN, "sqlite:"))
						if err != nil {
							t.Fatal(err)
						}
						defer db.Close()
						var id int64
						if err := db.QueryRow(`SELECT ` + call).Scan(&id); err != nil {
							t.Fatal(err)
						}
						for statement := range strings.SplitSeq(c.statement, "; ") {
							if _, err := db.Exec(statement); err != nil {
								t.Fatalf("%s: %v", statement, err)
							}
						}
						config.TamperEvident = false // who opens it so would begin a chain
						found := verify(t, config)
						if c.chainedOnly && !chained {
							if name != "SQLite" || !strings.HasPrefix(c.name, "a whole window") { // there its ID shows that it is gone
								wantFaults(t, found)
							}
							continue
						}
						for _, says := range c.says {
							wantFaults(t, found, strings.ReplaceAll(says, "ID", fmt.Sprint(id)))
						}
						if name == "SQLite" && strings.HasSuffix(c.name, "call is gone") {
							wantFaults(t, found, " is missing")
						}
					}
				})
			}
		})
	}
}

func TestVerifyingBesideRunningHitsFindsNothing(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		config := ratelimitlog.Config{Limit: "50", Window: "1s"} // windows begin and are refused from memory all the time
		configure(&config)
		if config.DSN == "sqlite::memory:" {
			return
		}
		limiter, stop, err := ratelimitlog.NewLimiter(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		var done atomic.Bool
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				for n := 0; !done.Load(); n++ {
					key := fmt.Sprint("key-", (g+n)%5)
					if _, err := limiter.Hit(t.Context(), domain.Hit{Key: key, Policies: []string{"default"}, Cost: 1}); err != nil {
						t.Error(err)
						return
					}
					if n%500 == 499 {
						if err := limiter.ResetAll(t.Context(), key, domain.Origin{}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		for range 10 {
			wantFaults(t, verify(t, config))
		}
		done.Store(true)
		group.Wait()
	})
}

func TestVerifyKnowsWhatIsNotLogged(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		var config ratelimitlog.Config
		configure(&config)
		if config.DSN == "sqlite::memory:" {
			return
		}
		file := filepath.Join(t.TempDir(), "policies.yaml")
		write := func(audit string) {
			text := fmt.Sprintf("policies: {default: {limit: 5, window: 1h, audit: {%s}}, other: {limit: 5, window: 1h}}\n", audit)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("log: all")
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
		for _, audit := range []string{"log: all", "log: refused", "log: off", "sample: 0.3", "log: allowed", "log: all"} {
			write(audit)
			begun := time.Now()
			for revision := ""; ; { // until the rules are in force and the log says so
				a := s.request(t, "GET", "/v1/policies")
				var now struct{ Revision string }
				decodeJSON(t, a.body, &now)
				revision = now.Revision
				if want := strings.Contains(a.body, `"audit"`) == (audit != "log: all"); want && revisionLogged(t, s, revision) {
					break
				}
				if time.Since(begun) > 20*time.Second {
					t.Fatalf("%s is not in force: %s", audit, a.body)
				}
			}
			for i := range 8 {
				s.post(t, "/v1/hits", `{"key":"k","policies":["default","other"]}`)
				s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"k%d","policies":["default"]}`, i))
			}
			s.request(t, "GET", "/v1/counters?key=k") // waits until refusals are counted
			config.Now = s.clock.now
			wantFaults(t, verify(t, config))
		}
		s.stop()
		config.Now = s.clock.now
		found := verify(t, config)
		wantFaults(t, found)
		if found.Uncovered == 0 || found.Windows < 9 {
			t.Errorf("verified %+v", found)
		}
	})
}

// revisionLogged reports whether the log says that the revision came into force.
func revisionLogged(t *testing.T, s *service, revision string) bool {
	for _, call := range callsOf(t, s, domain.CallQuery{Kinds: []domain.CallKind{domain.CallPolicySet}, Limit: 100}) {
		if call.RequestID == revision {
			return true
		}
	}
	return false
}

// Neither an idle policy whose calls are all gone, nor one that is pruned while the log
// is read, looks as if somebody had removed calls.
func TestWhatIsPrunedIsNoFault(t *testing.T) {
	for name, configure := range map[string]func(t *testing.T, c *ratelimitlog.Config){
		"SQLite":     func(t *testing.T, c *ratelimitlog.Config) {},
		"PostgreSQL": func(t *testing.T, c *ratelimitlog.Config) { c.DSN, c.Migrate = servicetest.Postgres(t), true },
	} {
		t.Run(name, func(t *testing.T) {
			s := servePoliciesWith(t, "policies: {default: {limit: 5, window: 1h, audit: {keep: 1s}}, other: {limit: 1000000, window: 1h, audit: {keep: 1s}}}\n", func(c *ratelimitlog.Config) {
				configure(t, c)
				c.TamperEvident, c.PruneEvery, c.AdminToken = true, time.Millisecond, adminToken
			})
			s.rulesInLog(t)
			s.ping(t, "k")
			s.clock.advance(time.Minute)
			eventually(t, "the only hit is pruned", func() bool { return hitsOf(t, s, "default") == 0 })
			config := s.config
			found := verify(t, config)
			wantFaults(t, found)
			if found.Pruned != 1 || !found.Chained {
				t.Errorf("verified %+v", found)
			}
			var done atomic.Bool
			var group sync.WaitGroup
			for g := range 4 {
				group.Go(func() {
					for n := 0; !done.Load(); n++ {
						s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"%d","policies":["other"]}`, g))
						s.clock.advance(100 * time.Millisecond)
					}
				})
			}
			for n := 0; n < 20 || found.Pruned < 100; n++ { // until enough was pruned beside it
				if found = verify(t, config); n == 2000 {
					t.Fatalf("verified %+v", found)
				}
				wantFaults(t, found)
			}
			done.Store(true)
			group.Wait()
			wantFaults(t, verify(t, config))
		})
	}
}

// Who came into force stays evident when the hits of a policy are pruned.
func TestWhatServersDidStaysChainedWhenHitsArePruned(t *testing.T) {
	s := servePoliciesWith(t, "policies: {default: {limit: 5, window: 1h, audit: {keep: 1s}}}\n", func(c *ratelimitlog.Config) {
		c.TamperEvident, c.PruneEvery, c.AdminToken = true, time.Millisecond, adminToken
	})
	s.rulesInLog(t)
	s.ping(t, "k")
	s.clock.advance(time.Minute)
	eventually(t, "the only hit is pruned", func() bool { return hitsOf(t, s, "default") == 0 })
	s.stop()
	mustExec(t, s.dsn, `UPDATE api_calls SET "limit" = 7 WHERE kind = 'policy_set'`)
	mustExec(t, s.dsn, `DELETE FROM api_call_chains WHERE policy = 'default'`)
	wantFaults(t, verify(t, s.config), "default : the hash of the call does not fit", "there is no row of the chain of policy default")
	s.config.TamperEvident = false // who opens it so begins a chain anew
	mustExec(t, s.dsn, `UPDATE api_calls SET hash = NULL`)
	mustExec(t, s.dsn, `DELETE FROM api_call_chains`)
	wantFaults(t, verify(t, s.config), "that they are chained is not there any more") // for pruned calls had a hash
}

func TestChainsThatBeginMeanwhileAreNoFault(t *testing.T) {
	config := ratelimitlog.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
	clock := aLog(t, config)
	config.Now = clock.now
	verifier, cleanup, err := ratelimitlog.NewVerifier(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	var begin sync.Once
	found, err := verifier.Verify(t.Context(), application.Expected{}, func(int64, int64, int64) {
		begin.Do(func() {
			config.TamperEvident = true
			aLog(t, config)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, found)
	wantFaults(t, verifyExpecting(t, config, application.Expected{Chained: true}))
}

func TestZoneRulesThatHaveChangedSinceAreNoFault(t *testing.T) {
	config := ratelimitlog.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
	config.Now = aLog(t, config).now
	mustExec(t, config.DSN, `UPDATE rate_limit_windows SET expires_at = '2026-02-28T14:00:00Z' WHERE policy = 'month'`)
	wantFaults(t, verify(t, config))
	mustExec(t, config.DSN, `UPDATE rate_limit_windows SET expires_at = '2026-02-28T11:00:00Z' WHERE policy = 'month' AND key = 'key-0'`)
	wantFaults(t, verify(t, config), "month key-0: expires_at is 2026-02-28T11:00:00Z")
}

func TestChainsThatAreGoneAreFoundByWhatWasNoted(t *testing.T) {
	config := ratelimitlog.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), TamperEvident: true}
	clock := aLog(t, config)
	config.Now = clock.now
	noted := application.Expected{Chained: true, Noted: verify(t, config).Heads}
	wantFaults(t, verifyExpecting(t, config, noted))
	aLog(t, config) // goes on
	wantFaults(t, verifyExpecting(t, config, noted))
	config.TamperEvident = false // who opens it so begins a chain anew
	mustExec(t, config.DSN, `UPDATE api_calls SET hash = NULL`)
	mustExec(t, config.DSN, `DELETE FROM api_call_chains`)
	wantFaults(t, verify(t, config))
	wantFaults(t, verifyExpecting(t, config, noted), "calls are not chained", "no call has the hash that was noted of the chain of policy month")
	mustExec(t, config.DSN, `INSERT INTO api_calls (id, called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, method, path, request_id)
VALUES (-5, '2026-01-01T00:00:00.000Z', 'reset', 'month', 'key-1', 0, 0, 1, 0, 0, 0, '', '', '')`)
	wantFaults(t, verify(t, config), "api_calls -5 month key-1: IDs begin at 1")
}

// hitsOf is how many hits of a policy the log has.
func hitsOf(t *testing.T, s *service, policy string) int {
	return len(callsOf(t, s, domain.CallQuery{Policy: policy, Kinds: []domain.CallKind{domain.CallHit}, Limit: 1000}))
}

// Hits that wait for the same commit are refused alike, otherwise and not at all, in
// turn: each row tells what the window held after its hits.
func TestRowsOfOneCommitAreInTheOrderOfCounting(t *testing.T) {
	s := servePolicies(t, "policies: {default: {limit: 10, window: 1h}}\n")
	db := database(t, s.dsn)
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`BEGIN IMMEDIATE`); err != nil { // so that hits have to wait
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, cost := range []int{5, 8, 8, 1, 8, 6, 8, 8, 1, 6} {
		group.Go(func() { s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"k","policies":["default"],"cost":%d}`, cost)) })
		time.Sleep(20 * time.Millisecond) // in this order, for the sake of the rows; any order must be right
	}
	if _, err := db.Exec(`COMMIT`); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	s.stop()
	found := verify(t, ratelimitlog.Config{DSN: s.dsn, Now: s.clock.now})
	wantFaults(t, found)
	if found.Windows != 1 {
		t.Errorf("verified %+v", found)
	}
}
