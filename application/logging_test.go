package application_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// audited is a policy with an hour's windows.
func audited(t testing.TB, name string, limit int64, audit domain.Audit) domain.Policy {
	p := policy(t, name, limit, time.Hour)
	p.Audit = audit
	return p
}

// logOf adds up the hits in the log of a policy, and wants its calls to tell that coverage.
func logOf(t *testing.T, log domain.AuditLog, policy, coverage string) (allowed, refused int64) {
	t.Helper()
	query := domain.CallQuery{Policy: policy, OldestFirst: true, Limit: application.MaxPage}
	for {
		page, err := log.Calls(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range page {
			if call.Coverage != coverage || call.Hits < 1 {
				t.Errorf("the log has %+v, want hits and the coverage %q", call, coverage)
			}
			if call.Allowed {
				allowed += call.Hits
			} else {
				refused += call.Hits
			}
		}
		if len(page) < query.Limit {
			return allowed, refused
		}
		query.After = page[len(page)-1].ID
	}
}

func TestTheLogHasOnlyTheOutcomesThatItIsToHaveAndCountersAreExact(t *testing.T) {
	s := openStore(t)
	shadow := audited(t, "shadow", 3, domain.Audit{Log: domain.LogRefused})
	shadow.Shadow = true
	policies := []domain.Policy{
		audited(t, "all", 3, domain.Audit{Keep: time.Second, MaxRows: 1}), audited(t, "allowed", 3, domain.Audit{Log: domain.LogAllowed}),
		audited(t, "refused", 3, domain.Audit{Log: domain.LogRefused}), audited(t, "off", 3, domain.Audit{Log: domain.LogOff, Sample: 0.5}), shadow,
	}
	l := newLimiter(t, s, newClock(newYear).options(), 100, policies...)
	want := map[string][2]int64{"all": {3, 5}, "allowed": {3, 0}, "refused": {0, 5}, "off": {0, 0}, "shadow": {0, 5}}
	for _, p := range policies {
		for i := range 8 { // the first refusal by the store, later ones from memory
			d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{p.Name}, Cost: 1})
			if got := d.Policies[0]; got.Allowed() != (i < 3) || got.Count != int64(i+1) {
				t.Errorf("hit %d by %s: %+v", i+1, p.Name, got)
			}
		}
		counter := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{p.Name}}).Policies[0]
		if counter.Count != 8 || counter.Refused != 5 {
			t.Errorf("%s has count %d, refused %d; want 8, 5", p.Name, counter.Count, counter.Refused)
		}
		allowed, refused := logOf(t, s, p.Name, p.Audit.Coverage())
		if got := [2]int64{allowed, refused}; got != want[p.Name] {
			t.Errorf("the log of %s has %v hits allowed and refused, want %v", p.Name, got, want[p.Name])
		}
	}
	// Beside others, and with what an administrator does.
	d := mustHit(t, l, domain.Hit{Key: "j", Policies: []string{"default", "off", "all"}, Cost: 2})
	if !d.Allowed {
		t.Errorf("a hit on three: %+v", d)
	}
	if err := l.Reset(t.Context(), domain.Hit{Key: "j", Policies: []string{"off"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, call := range callsOf(t, s, "j") {
		got = append(got, fmt.Sprint(call.Kind, " ", call.Policy, call.Coverage))
	}
	if fmt.Sprint(got) != "[hit default hit all reset off]" {
		t.Errorf("the log of j has %q", got)
	}
}

// The share of hits that is logged is the sample, of those that the store decides and
// of those that are refused from memory, and all are counted.
func TestASampleOfTheHitsIsLoggedAndAllAreCounted(t *testing.T) {
	const sample, limit, hits, clients = 0.1, 4000, 8000, 8
	s := openStore(t)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2)) // not safe for concurrent use, and two limiters draw
	options := newClock(newYear).options().Drawing(func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	})
	policies := []domain.Policy{audited(t, "sampled", limit, domain.Audit{Sample: sample}), audited(t, "rare", 1, domain.Audit{Sample: domain.MinSample})}
	for range 2 {
		l := newLimiter(t, s, options, 1, policies...)
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range hits / 2 / clients {
					for _, name := range []string{"sampled", "rare"} {
						if _, err := l.Hit(t.Context(), domain.Hit{Key: "k", Policies: []string{name}, Cost: 1}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"sampled", "rare"}}); d.Policies[0].Used() > limit || d.Policies[1].Used() > 1 {
			t.Errorf("counted %+v", d.Policies)
		}
	}
	l := newLimiter(t, s, options, 1, policies...)
	d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"sampled", "rare"}})
	if p, q := d.Policies[0], d.Policies[1]; p.Count != hits || p.Refused != hits-limit || q.Count != hits || q.Refused != hits-1 {
		t.Errorf("counted %+v", d.Policies)
	}
	allowed, refused := logOf(t, s, "sampled", "all sample 0.1")
	for what, logged := range map[string]int64{"allowed": allowed, "refused": refused} {
		if off := math.Abs(float64(logged) - sample*limit); off > 5*math.Sqrt(limit*sample*(1-sample)) {
			t.Errorf("of %d %s hits %d are in the log", limit, what, logged)
		}
	}
	if allowed, refused := logOf(t, s, "rare", "all sample 0.000001"); allowed+refused > 1 {
		t.Errorf("of %d hits %d are in the log at one of a million", hits, allowed+refused)
	}
}

// A hit is in the log under all its policies or under none, where they have one sample.
func TestAHitIsDrawnOnceForAllItsPolicies(t *testing.T) {
	s := openStore(t)
	draws := []float64{0.5, 0.4999, 0, 0.9999}
	options := newClock(newYear).options().Drawing(func() float64 {
		draw := draws[0]
		draws = draws[1:]
		return draw
	})
	half := domain.Audit{Sample: 0.5}
	l := newLimiter(t, s, options, 100, audited(t, "a", 100, half), audited(t, "b", 100, half))
	for i := range 4 {
		mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"a", "default", "b"}, Cost: 1, Origin: domain.Origin{RequestID: fmt.Sprint(i)}})
	}
	var got []string
	for _, call := range callsOf(t, s, "k") {
		got = append(got, call.RequestID+call.Policy)
	}
	if want := "[0a 0default 0b 1default 2default 3a 3default 3b]"; fmt.Sprint(got) != want {
		t.Errorf("the log has %v, want %s", got, want)
	}
}

// What is refused from memory is logged as the rules say that refused it, also if
// other rules come into force before it is counted.
func TestRefusalsAreLoggedByTheRulesThatRefusedThem(t *testing.T) {
	s := openStore(t)
	with := func(audit domain.Audit) domain.Rules {
		return domain.Rules{Policies: []domain.Policy{audited(t, "p", 1, audit)}}
	}
	rules, err := application.NewRules(with(domain.Audit{Log: domain.LogOff}))
	if err != nil {
		t.Fatal(err)
	}
	l, stop := application.NewLimiter(rules, application.Stores{Units: s, Counter: s}, newClock(newYear).options())
	defer stop()
	hits := func(n int) {
		for range n {
			mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"p"}, Cost: 1})
		}
	}
	hits(50)
	if err := rules.Replace(with(domain.Audit{})); err != nil {
		t.Fatal(err)
	}
	hits(100)
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"p"}}); d.Policies[0].Count != 150 || d.Policies[0].Refused != 149 {
		t.Errorf("counted %+v", d.Policies)
	}
	if allowed, refused := logOf(t, s, "p", ""); allowed != 0 || refused != 100 {
		t.Errorf("the log has %d and %d hits, want the 100 refused ones", allowed, refused)
	}
}

func TestUncheckedHitsAreLoggedUnlessTheLogIsOff(t *testing.T) {
	s := newIll(t)
	options := newClock(newYear).options()
	options.Timeout = 50 * time.Millisecond
	var policies []domain.Policy
	for name, audit := range map[string]domain.Audit{"refused": {Log: domain.LogRefused, Sample: 0.001}, "off": {Log: domain.LogOff}} {
		p := audited(t, name, 2, audit)
		p.FailOpen = true
		policies = append(policies, p)
	}
	l := newLimiter(t, s, options, 3, policies...)
	s.set(func() error { return errors.New("connection refused") })
	for range 5 {
		if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"off", "refused"}, Cost: 1}); !d.Unchecked {
			t.Errorf("decided %+v", d)
		}
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		calls := callsOf(t, s.store.(domain.AuditLog), "k")
		if len(calls) == 1 && calls[0].Kind == domain.CallUnchecked && calls[0].Policy == "refused" && calls[0].Hits == 5 {
			return
		}
		if time.Since(begun) > 10*time.Second || len(calls) > 1 {
			t.Fatalf("the log has %+v", calls)
		}
	}
}
