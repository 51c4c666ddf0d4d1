package ratelimitlog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

const twoPolicies = `policies:
  burst: {limit: 1, window: 10s}
  daily: {limit: 3, window: 1d}
  dark: {limit: 1, window: 1d, shadow: true}
`

// hits asks for a hit of alice under policies.
func (s *service) hits(t *testing.T, policies ...string) answer {
	t.Helper()
	return s.do(t, "POST", "/v1/hits", fmt.Sprintf(`{"key":"alice","policies":["%s"]}`, strings.Join(policies, `","`)))
}

// Who asks does not know which of the policies refused.
func TestExplainWithoutAPolicyTellsOfTheOneThatRefused(t *testing.T) {
	s := servePoliciesWith(t, twoPolicies, withTokens)
	s.explain(t, "key=alice", "The log has no hit of alice under policy default within a second of 2026-01-01T00:00:10Z.")
	s.hits(t, "burst", "daily") // 00:00:10
	s.explain(t, "key=alice", "alice was allowed at 2026-01-01T00:00:10Z by policy daily.")
	s.clock.advance(5 * time.Second)
	s.hits(t, "burst", "dark") // 00:00:15, refused by burst
	s.clock.advance(15 * time.Second)
	s.hits(t, "dark") // 00:00:30
	s.hits(t, "dark") // refused in shadow
	burst := "alice was refused at 2026-01-01T00:00:15Z by policy burst: 1 of 1 units of the window 2026-01-01 00:00:10 to 00:00:20 UTC were used."
	s.explain(t, "key=alice&at=2026-01-01T00:00:15Z", burst)
	s.clock.advance(3 * time.Hour)
	e := s.explain(t, "key=alice", "The log has no hit of alice under policy burst within a second of 2026-01-01T03:00:30Z.",
		"The nearest refusal before that was at 2026-01-01T00:00:15Z (call 7): ask about it with --at 2026-01-01T00:00:15Z, over HTTP with at=2026-01-01T00:00:15Z.")
	if e.Hit != nil || e.Before == nil || e.Before.ID != 7 || e.After != nil {
		t.Errorf("%+v", e)
	}
	s.explain(t, "key=alice&policy=dark&at=2026-01-01T00:00:30Z", "alice would have been refused at 2026-01-01T00:00:30Z by policy dark, which was in shadow: 1 of 1 units of the window 2026-01-01 00:00:00 to 2026-01-02 00:00:00 UTC were used.")
	for range 2 {
		s.hits(t, "daily")
	}
	s.hits(t, "daily", "burst") // 03:00:30: daily has 3
	s.hits(t, "burst")
	if a := s.hits(t, "daily", "burst"); a.status != 429 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	e = s.explain(t, "key=alice&policy=daily"+s.at(), "Policy burst refused at that time too: ask for that one with --policy burst, over HTTP with policy=burst.")
	if len(e.Too) != 1 || e.Too[0] != "burst" {
		t.Errorf("%+v", e)
	}
	s.explain(t, "key=alice&at=2026-01-01T01:00:00Z", "The log has no hit of alice under policy burst within a second of 2026-01-01T01:00:00Z.",
		"The nearest refusal before that was at 2026-01-01T00:00:15Z (call 7): ask about it with --at 2026-01-01T00:00:15Z, over HTTP with at=2026-01-01T00:00:15Z.")
	s.clock.advance(time.Hour)
	s.explain(t, "key=alice&policy=burst", "Policy daily refused at 2026-01-01T03:00:30Z too: ask for that one with --policy daily, over HTTP with policy=daily.")
	s.clock.advance(24 * time.Hour) // too long ago
	s.explain(t, "key=alice", "The log has no hit of alice under policy default within a second of 2026-01-02T04:00:30Z.")
}

func TestExplainTakesATimeWithoutSecondsForTheWholeMinute(t *testing.T) {
	s := serve(t, withTokens) // 3 a minute, from 00:00:10 on
	s.clock.advance(3 * time.Minute)
	for range 5 { // 00:03:10 to 00:03:50
		s.ping(t, "alice")
		s.clock.advance(10 * time.Second)
	}
	s.clock.advance(3 * time.Minute) // 00:07:00
	s.ping(t, "alice")
	s.clock.advance(30 * time.Second)
	for _, at := range []string{"2026-01-01T00:03Z", "2026-01-01T09:03%2B09:00"} {
		e := s.explain(t, "key=alice&at="+at, "alice was refused at 2026-01-01T00:03:50Z by policy default: 3 of 3 units of the window 2026-01-01 00:03:00 to 00:04:00 UTC were used.")
		if !e.Minute || e.AsOf != "2026-01-01T00:03:50Z" || e.Count != 5 || e.Refused != 2 {
			t.Errorf("%+v", e)
		}
	}
	e := s.explain(t, "key=alice&at=2026-01-01T00:07Z", "alice was allowed at 2026-01-01T00:07:00Z by policy default.",
		"At 2026-01-01T00:07:00Z 1 of 3 units of the window 2026-01-01 00:07:00 to 00:08:00 UTC were used: a hit of cost 1 would have passed.")
	if e.Count != 1 || len(e.Spent) != 1 {
		t.Errorf("%+v", e)
	}
	e = s.explain(t, "key=alice&at=2026-01-01T00:04Z", "The log has no hit of alice under policy default within the minute from 2026-01-01T00:04:00Z on.",
		fmt.Sprintf("The nearest refusal before that was at 2026-01-01T00:03:50Z (call %d): ask about it with --at 2026-01-01T00:03:50Z, over HTTP with at=2026-01-01T00:03:50Z.", e.Spent[0].ID-1))
	if e.After != nil || e.Known {
		t.Errorf("%+v", e)
	}
	if e = s.explain(t, "key=alice&at=2026-01-01T00:03:00Z"); e.Minute || e.Hit != nil || e.After == nil || !strings.Contains(e.Text, "\nThe nearest refusal after that was at 2026-01-01T00:03:40Z (call ") {
		t.Errorf("a second is no minute: %s", e.Text)
	}
	for query, parameter := range map[string]string{"at=2026-01-01T00:03": "at", "at=00:03": "at", "at=2026-01-01%2000:03": "at", "at=1969-12-31T23:59Z": "at", "at=0001-01-01T00:00:00Z": "at", "at=9999-01-01T00:00Z": "at", "at=2026-01-01T00:08Z": "at"} {
		if a := s.request(t, "GET", "/v1/explain?key=k&"+query, bearer(auditToken)...); a.status != 422 || !strings.Contains(a.body, `"parameter":"`+parameter+`"`) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

// A client that comes at the second that is told passes, and that second is as early as can be.
func TestExplainTellsTheWholeSecondAtWhichAKeyPasses(t *testing.T) {
	for _, window := range []string{"1m", "sliding 10s", "calendar day"} {
		for _, off := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
			s := servePoliciesWith(t, "policies: {p: {limit: 2, window: "+window+"}}\n", withTokens)
			s.clock.advance(off)
			for range 3 {
				s.hits(t, "p")
			}
			e := s.explain(t, "key=alice&policy=p")
			if e.Passes == nil || strings.Contains(*e.Passes, ".") || strings.Contains(e.Text[strings.LastIndex(e.Text, "\n"):], ".3Z") {
				t.Errorf("%s: passes at %v", window, e.Text)
				continue
			}
			at := instant(t, *e.Passes)
			s.clock.advance(at.Add(-time.Second).Sub(s.clock.now()))
			if a := s.hits(t, "p"); a.status != 429 {
				t.Errorf("%s from %s on: passes a second before %s", window, off, *e.Passes)
			}
			s.clock.advance(time.Second)
			if a := s.hits(t, "p"); a.status != 200 {
				t.Errorf("%s from %s on: does not pass at %s", window, off, *e.Passes)
			}
		}
	}
}

// The rules of a command beside a server are none that anybody enforces.
func TestExplainBesideAServerTellsWhatTheLogSaysIsInForce(t *testing.T) {
	s := servePoliciesWith(t, twoPolicies, func(c *ratelimitlog.Config) { withTokens(c); c.Limit = "2" })
	s.rulesInLog(t)
	for range 2 {
		s.hits(t, "burst", "daily")
	}
	for range 3 {
		s.ping(t, "alice")
	}
	s.do(t, "GET", "/v1/counters?key=alice", "") // refusals are counted and logged: who is outside cannot ask for that
	explainer, stop, err := ratelimitlog.NewExplainer(t.Context(), ratelimitlog.Config{DSN: s.dsn, ReadOnly: true, Now: s.clock.now, LogTo: s.log})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	told := func(policy string, texts ...string) domain.Explanation {
		t.Helper()
		e, err := explainer.Explain(t.Context(), application.ExplainQuery{Key: "alice", Policy: policy, Outside: true})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(problem.Words(&e), "\n")
		for _, want := range texts {
			if !strings.Contains("\n"+text+"\n", "\n"+want+"\n") {
				t.Errorf("%s is explained by\n%s\nwhich lacks\n%s", policy, text, want)
			}
		}
		return e
	}
	e := told("burst", "alice was refused at 2026-01-01T00:00:10Z by policy burst: 1 of 1 units of the window 2026-01-01 00:00:10 to 00:00:20 UTC were used.",
		"What is in force now is told by the log and the counters alone: since 2026-01-01T00:00:10Z it is 1 per fixed 10s (call 1).",
		"A hit of cost 1 passes at 2026-01-01T00:00:20Z, 10 seconds from 2026-01-01T00:00:10Z, if nobody else asks.",
		"Policy default refused at that time too: ask for that one with --policy default, over HTTP with policy=default.")
	if e.Now == nil || e.Now.Count != 2 || e.Changed() {
		t.Errorf("%+v", e)
	}
	if e = told("default", "What is in force now is told by the log and the counters alone: since 2026-01-01T00:00:10Z it is 2 per fixed 1m (call 4)."); e.Now == nil || e.Now.Limit != 2 || e.Changed() {
		t.Errorf("%+v", e) // and not the 60 that it is told
	}
	// The same holds for a policy of another server on the store.
	appendCalls(t, s, domain.Call{Kind: domain.CallPolicySet, At: s.clock.now(), Policy: "elsewhere", Allowed: true, Limit: 7, Schedule: "fixed 1h"})
	if e := s.explain(t, "key=alice&policy=elsewhere", "A hit of cost 1 passes now."); e.Now == nil || e.Now.KnownBy != "change" || e.Now.Limit != 7.0 || !strings.Contains(e.Text, "it is 7 per fixed 1h (call ") {
		t.Errorf("%+v", e)
	}
	removed := domain.Call{Kind: domain.CallPolicyRemoved, At: s.clock.now(), Policy: "burst", Allowed: true}
	appendCalls(t, s, removed)
	if e = told("burst", "The policy is in force no more, and refuses nobody."); e.Now != nil {
		t.Errorf("%+v", e)
	}
	mustExec(t, s.dsn, "DELETE FROM api_calls WHERE kind LIKE 'policy%'")
	told("burst", "The log does not say whether the policy is in force now.")
	told("default", "The log does not say what is in force now. By the settings here it is 60 per fixed 1m.")
}

// The answer is soon there, however many calls the window has.
func TestExplainReadsNoMoreThanItTells(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) {
		withTokens(c)
		c.Limit, c.Window = "unlimited", "calendar month"
	})
	calls := make([]domain.Call, 12_000)
	for i := range calls {
		calls[i] = domain.Call{
			Kind: domain.CallHit, At: newYear.Add(10 * time.Second), Policy: "default", Key: "busy", Cost: 1, Hits: 1, Allowed: true, Count: int64(i + 1), Limit: domain.Unlimited,
			WindowStart: newYear, Schedule: "calendar month UTC", Origin: domain.Origin{Method: "GET", Path: fmt.Sprint("/", i/6000)},
		}
	}
	reset := calls[0]
	reset.Kind = domain.CallReset
	appendCalls(t, s, append(append(calls[:1000:1000], reset), calls[1000:]...)...)
	e := s.explain(t, "key=busy"+s.at(), "By path the newest 10000 calls that were allowed used: 6000 units /1, 4000 units /0.")
	if e.PathsOf != 10_000 || len(e.Spent) != 100 || len(e.Resets) != 1 {
		t.Errorf("%d %d %d", e.PathsOf, len(e.Spent), len(e.Resets))
	}
	appendCalls(t, s, reset)
	if e = s.explain(t, "key=busy"); e.PathsOf != 0 || len(e.Spent) != 0 || len(e.Resets) != 2 || e.Resets[0].ID >= e.Resets[1].ID {
		t.Errorf("%+v", e)
	}
	appendCalls(t, s, calls[7000:]...)
	if e = s.explain(t, "key=busy"+s.at(), "By path was used: 5000 units /1."); e.PathsOf != 0 {
		t.Errorf("%+v", e)
	}
}
