package ratelimitlog_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// revision is that of the rules in force, as /readyz tells it.
func (s *service) revision(t *testing.T) string {
	t.Helper()
	var ready struct{ Revision string }
	decodeJSON(t, s.request(t, "GET", "/readyz").body, &ready)
	return ready.Revision
}

// rulesLogged waits until the log says so much of the rules, and returns that.
func (s *service) rulesLogged(t *testing.T, n int) []domain.Call {
	t.Helper()
	query := domain.CallQuery{Kinds: []domain.CallKind{domain.CallPolicySet, domain.CallPolicyRemoved}, OldestFirst: true, Limit: 100}
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		calls := callsOf(t, s, query)
		if len(calls) >= n {
			return calls
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("the log has %+v, want %d calls\n%s", calls, n, s.log)
		}
	}
}

// rulesInLog waits until the log says which rules are in force, so that later calls have
// the same IDs in every run, and returns what it says. It asks the server, whatever store
// that has, with the token that is set.
func (s *service) rulesInLog(t *testing.T) []loggedCall {
	t.Helper()
	target := "/v1/calls?order=asc&kind=policy_set,policy_removed&request_id=" + s.revision(t)
	var page struct{ Calls []loggedCall }
	eventually(t, "the rules in the log", func() bool {
		a := s.request(t, "GET", target, bearer(cmp.Or(s.config.AuditToken, s.config.AdminToken))...)
		if a.status != 200 {
			t.Fatalf("%s: %d %s", target, a.status, a.body)
		}
		decodeJSON(t, a.body, &page)
		return len(page.Calls) > 0
	})
	return page.Calls
}

func TestStartsAndReloadsAreInTheLog(t *testing.T) {
	dsn, file := "sqlite:"+filepath.Join(t.TempDir(), "test.db"), filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		replaceFile(t, file, text)
	}
	start := func() *service {
		return serve(t, func(c *ratelimitlog.Config) { c.DSN, c.PolicyFile, c.ReloadEvery = dsn, file, 5*time.Millisecond })
	}
	write("policies: {a: {limit: 5, window: 1m, audit: {log: refused}}, b: {limit: 6, window: 1m, shadow: true}}")
	s := start()
	s.rulesLogged(t, 3)
	first := s.revision(t)
	write("policies: {a: {limit: 7, window: 1m, audit: {log: refused}}, c: {limit: 6, window: 1m}}")
	s.rulesLogged(t, 6)
	second := s.revision(t)
	write("policies: {a: {limit: x}}")
	for begun := time.Now(); !strings.Contains(s.log.String(), "the policies are not changed"); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the bad file goes unnoticed")
		}
	}
	write("policies: {a: {limit: 7, window: 60s, audit: {log: refused}}, c: {limit: 6, window: 1m}} # the same")
	s.stop()
	s = start() // with the same rules
	s.ping(t, "k")
	if got := s.revision(t); got != second || got == first {
		t.Errorf("the revisions are %s, %s and %s", first, second, got)
	}
	write("policies: {a: {limit: 8, window: 1m, audit: {log: refused}}, c: {limit: 6, window: 1m}}")
	calls := s.rulesLogged(t, 7)
	third := s.revision(t)

	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%s %s %s %d %s %v %q %s %s", c.RequestID, c.Kind, c.Policy, c.Limit, c.Schedule, c.Shadow, c.Coverage, c.Method, c.Path))
		if !regexp.MustCompile(fmt.Sprintf(`^serve .+:%d$`, os.Getpid())).MatchString(c.Actor) || !c.At.Equal(s.clock.now()) {
			t.Errorf("by %q at %s", c.Actor, c.At)
		}
	}
	for i := range got {
		got[i] = strings.NewReplacer(first, "1st", second, "2nd", third, "3rd", fmt.Sprint(int64(domain.Unlimited)), "-").Replace(got[i])
	}
	want := []string{
		`1st policy_set a 5 fixed 1m false "refused" START policies.yaml`,
		`1st policy_set b 6 fixed 1m true "" START policies.yaml`,
		`1st policy_set default 3 fixed 1m false "" START policies.yaml`,
		`2nd policy_set a 7 fixed 1m false "refused" RELOAD policies.yaml`,
		`2nd policy_removed b -  false "" RELOAD policies.yaml`,
		`2nd policy_set c 6 fixed 1m false "" RELOAD policies.yaml`,
		`3rd policy_set a 8 fixed 1m false "refused" RELOAD policies.yaml`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Rules are in force while they cannot be logged, and are logged once the log is back.
func TestRulesAreLoggedOnceTheStoreIsBack(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	if err := ratelimitlog.Migrate(context.Background(), ratelimitlog.Config{DSN: dsn}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, dsn, `CREATE TRIGGER full BEFORE INSERT ON api_calls WHEN new.kind = 'policy_set' BEGIN SELECT RAISE(ABORT, 'the log is full'); END`)
	s := serve(t, func(c *ratelimitlog.Config) { c.DSN = dsn })
	for begun := time.Now(); !strings.Contains(s.log.String(), "the log is full"); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the failure is not told")
		}
	}
	if a := s.ping(t, "k"); a.status != 200 {
		t.Errorf("meanwhile: %d %s", a.status, a.body)
	}
	mustExec(t, dsn, `DROP TRIGGER full`)
	calls := s.rulesLogged(t, 1)
	if c := calls[0]; c.Policy != "default" || c.Limit != 3 || c.Method != "START" || c.Path != "" || c.RequestID != s.revision(t) {
		t.Errorf("the log has %+v", c)
	}
	if n := strings.Count(s.log.String(), "the log is full"); n != 1 {
		t.Errorf("the failure is told %d times\n%s", n, s.log)
	}
}

// The log tells when rules came into force, not when it was there to be told.
func TestRulesThatAreLoggedLateTellWhenTheyCameIntoForce(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	if err := ratelimitlog.Migrate(t.Context(), ratelimitlog.Config{DSN: dsn}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, dsn, `CREATE TRIGGER full BEFORE INSERT ON api_calls BEGIN SELECT RAISE(ABORT, 'the log is full'); END`)
	s := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.DSN = dsn })
	eventually(t, "the log has refused the rules", func() bool { return strings.Contains(s.log.String(), "the log is full") })
	s.clock.advance(time.Hour)
	mustExec(t, dsn, `DROP TRIGGER full`)
	for _, call := range s.rulesInLog(t) {
		if want := newYear.Add(10 * time.Second).Format("2006-01-02T15:04:05.000Z"); call.CalledAt != want {
			t.Errorf("the rules came into force at %s by the log, want %s", call.CalledAt, want)
		}
	}
}

// What a policy that is gone kept for a time only is not forgotten without a word.
func TestPoliciesThatAreGoneAndLeaveCallsBehindAreToldOf(t *testing.T) {
	dsn, file := "sqlite:"+filepath.Join(t.TempDir(), "test.db"), filepath.Join(t.TempDir(), "policies.yaml")
	start := func(policies string) *service {
		replaceFile(t, file, policies)
		return serve(t, func(c *ratelimitlog.Config) {
			c.DSN, c.PolicyFile, c.ReloadEvery, c.PruneEvery = dsn, file, 5*time.Millisecond, 5*time.Millisecond
		})
	}
	reload := func(s *service, policies string) {
		revision := s.revision(t)
		replaceFile(t, file, policies)
		eventually(t, "the file is in force", func() bool { return s.revision(t) != revision })
	}
	wantTold := func(s *service, commands ...string) {
		t.Helper()
		eventually(t, fmt.Sprint(commands, " in the server's log"), func() bool {
			return !slices.ContainsFunc(commands, func(command string) bool {
				return !strings.Contains(s.log.String(), `"ratelimitlog prune --policy `+command+`"`)
			})
		})
		if got := strings.Count(s.log.String(), "a policy is gone"); got != len(commands) {
			t.Errorf("%d policies are told to be gone, want %q\n%s", got, commands, s.log)
		}
	}
	const stays = "default: {limit: 9, window: 1m, audit: {keep: 1h}}"
	s := start("policies: {" + stays + ", a: {limit: 9, window: 1m, audit: {keep: 36h, max_rows: 1}}, b: {limit: 9, window: 1m, audit: {max_rows: 1}}, c: {limit: 9, window: 1m, audit: {keep: 1s}}, d: {limit: 9, window: 1m}}")
	for range 2 {
		s.post(t, "/v1/hits", `{"key":"k","policies":["a","b","c","d"]}`)
	}
	s.clock.advance(2 * time.Second)
	eventually(t, "one hit of a and b is left, and none of c", func() bool { return hitsOf(t, s, "a")+hitsOf(t, s, "b")+hitsOf(t, s, "c") == 2 })
	reload(s, "policies: {"+stays+", b: {limit: 9, window: 1m, audit: {max_rows: 1}}, c: {limit: 9, window: 1m}, e: {limit: 9, window: 1m, audit: {keep: 5d}}}")
	wantTold(s, "a --keep 1d12h --max-rows 1")
	reload(s, "policies: {"+stays+", b: {limit: 9, window: 1m, audit: {max_rows: 1}}}")
	wantTold(s, "a --keep 1d12h --max-rows 1", "e --keep 5d")
	s.stop()

	// Of c nothing is left, of d nothing was ever pruned.
	s = start("policies: {" + stays + "}")
	wantTold(s, "a --keep ...", "b --keep ...")
}

// A policy that logs a part begins with that when the log says so, not before: else what
// is missing would look as if somebody had removed it.
func TestTheLogKnowsRulesBeforeTheyAreInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(audit string) {
		if err := os.WriteFile(file, []byte("policies: {default: {limit: 5, window: 1m, audit: {log: "+audit+"}}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("all")
	s := serve(t, func(c *ratelimitlog.Config) {
		c.PolicyFile, c.ReloadEvery, c.AdminToken = file, time.Millisecond, adminToken
	})
	s.rulesInLog(t)
	for n, audit := range []string{"off", "refused", "allowed", "off", "refused", "allowed"} {
		write(audit)
		eventually(t, "the policy is in force", func() bool { return strings.Contains(s.request(t, "GET", "/v1/policies").body, `"log":"`+audit+`"`) })
		calls := callsOf(t, s, domain.CallQuery{Kinds: []domain.CallKind{domain.CallPolicySet}, Limit: 1})
		if len(calls) != 1 || calls[0].Coverage != audit {
			t.Errorf("change %d: the log says %+v, in force is %s", n, calls, audit)
		}
	}
}
