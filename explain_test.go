package ratelimitlog_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

// explained is what a test reads of an explanation.
type explained struct {
	Text     string
	AsOf     string `json:"as_of"`
	Minute   bool
	Hit      *struct{ ID int64 }
	Before   *struct{ ID int64 } `json:"refused_before"`
	After    *struct{ ID int64 } `json:"refused_after"`
	Too      []string            `json:"refused_too"`
	PathsOf  int                 `json:"spent_paths_of"`
	InForce  rulesTold           `json:"in_force"`
	Start    string              `json:"window_start"`
	End      string              `json:"window_end"`
	Known    bool
	KnownBy  string `json:"known_by"`
	Count    int64
	Refused  int64
	Used     int64
	Previous int64 `json:"previous_used"`
	Carry    int64
	Would    *bool `json:"would_pass"`
	Partial  bool
	Spent    []struct{ ID int64 }
	Paths    []struct {
		Path    string
		Allowed int64
	} `json:"spent_by_path"`
	Resets []struct{ ID int64 }
	Now    *rulesTold
	Retry  *int64  `json:"retry_after"`
	Passes *string `json:"passes_at"`
}

type rulesTold struct {
	Limit    any
	LimitOf  string `json:"limit_of"`
	Window   string
	KnownBy  string `json:"known_by"`
	Shadow   bool
	Revision string
	Changed  bool `json:"changed_since"`
	Count    int64
}

// explain asks why, and wants texts in the words.
// explain asks about now if the query has no time.
func (s *service) explain(t *testing.T, query string, texts ...string) explained {
	t.Helper()
	if !strings.Contains(query, "at=") {
		query += "&at=" + s.config.Now().UTC().Format(time.RFC3339Nano)
	}
	return s.explainAt(t, query, texts...)
}

func (s *service) explainAt(t *testing.T, query string, texts ...string) explained {
	t.Helper()
	a := s.request(t, "GET", "/v1/explain?"+query, bearer(auditToken)...)
	if a.status != 200 {
		t.Fatalf("%s: %d %s", query, a.status, a.body)
	}
	a.wantHeader(t, "Cache-Control", "no-store")
	var e explained
	decodeJSON(t, a.body, &e)
	for _, text := range texts {
		if !strings.Contains("\n"+e.Text+"\n", "\n"+text+"\n") {
			t.Errorf("%s tells\n%s\nwhich lacks\n%s", query, e.Text, text)
		}
	}
	return e
}

// at is the clock's time as a parameter.
func (s *service) at() string { return "&at=" + s.clock.now().UTC().Format(time.RFC3339Nano) }

// wantPass checks that a hit of cost 1 passes at the time told, and not a second before.
func (s *service) wantPass(t *testing.T, e explained, hit func() answer) {
	t.Helper()
	if e.Passes == nil || e.Retry == nil {
		t.Fatalf("no time is told: %s", e.Text)
	}
	at := instant(t, *e.Passes)
	if *e.Retry > 0 {
		s.clock.advance(at.Add(-time.Second).Sub(s.clock.now()))
		if a := hit(); a.status != 429 {
			t.Errorf("a second before %s: %d %s", *e.Passes, a.status, a.body)
		}
	}
	s.clock.advance(at.Sub(s.clock.now()))
	if a := hit(); a.status != 200 {
		t.Errorf("at %s: %d %s", *e.Passes, a.status, a.body)
	}
}

// appendCalls writes to the log of a server.
func appendCalls(t *testing.T, s *service, calls ...domain.Call) {
	t.Helper()
	store, err := gormstore.Open(t.Context(), s.dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Append(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
}

func TestExplainTellsWhyAKeyWasRefusedAndWhenItPasses(t *testing.T) {
	s := serve(t, withTokens) // 3 a minute
	rules := s.rulesInLog(t)[0]
	ping := func() answer { return s.request(t, "GET", "/ping", "X-Client-Key", "alice", "X-Request-ID", "r-1") }
	for range 3 {
		ping()
		s.clock.advance(3 * time.Second)
	}
	s.clock.advance(time.Second) // 00:00:20
	ping()
	refusedAt := s.at()
	s.clock.advance(20 * time.Second)
	e := s.explain(t, "key=alice"+refusedAt,
		"alice was refused at 2026-01-01T00:00:20Z by policy default: 3 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.",
		"It is call 5 of the log, request r-1, GET /ping.",
		"The limit was the policy's, 3 per fixed 1m.",
		fmt.Sprintf("The policy was put in force at 2026-01-01T00:00:10Z by revision %s by %s (call 1).", s.revision(t), rules.Actor),
		"By path was used: 3 units /ping.",
		"The newest that were allowed: call 4 at 2026-01-01T00:00:16Z, call 3 at 2026-01-01T00:00:13Z, call 2 at 2026-01-01T00:00:10Z.",
		"A hit of cost 1 passes at 2026-01-01T00:01:00Z, 20 seconds from 2026-01-01T00:00:40Z, if nobody else asks.")
	if e.Hit == nil || e.Hit.ID != 5 || e.Count != 4 || e.Refused != 1 || e.Used != 3 || e.Would == nil || *e.Would || len(e.Spent) != 3 || *e.Retry != 20 || e.InForce.Changed || e.InForce.KnownBy != "call" {
		t.Errorf("%+v", e)
	}
	e = s.explain(t, "key=alice&at=2026-01-01T00:00:14.5%2B00:00",
		"The log has no hit of alice under policy default within a second of 2026-01-01T00:00:14.5Z.",
		"At 2026-01-01T00:00:14.5Z 2 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used: a hit of cost 1 would have passed.")
	if e.Hit != nil || e.Count != 2 || len(e.Spent) != 2 || !*e.Would {
		t.Errorf("%+v", e)
	}
	s.explain(t, "key=alice&at=2026-01-01T00:00:13.4Z", "alice was allowed at 2026-01-01T00:00:13Z by policy default.")
	if e = s.explain(t, "key=alice"); e.KnownBy != "now" || e.Count != 4 || *e.Would { // by the counters
		t.Errorf("%+v", e)
	}
	s.wantPass(t, e, ping)
	s.explain(t, "key=alice", "A hit of cost 1 passes now.")
	if a := s.request(t, "HEAD", "/v1/explain?key=alice", bearer(auditToken)...); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
}

func TestExplainTellsOfAQuota(t *testing.T) {
	s := serve(t, withTokens)
	s.rulesInLog(t)
	const quota = "/v1/quotas?policy=default&key=k"
	s.do(t, "PUT", quota, `{"limit":1}`)
	s.clock.advance(2 * time.Second)
	s.ping(t, "k")
	s.ping(t, "k")
	refusedAt := s.at()
	e := s.explain(t, "key=k"+refusedAt,
		"k was refused at 2026-01-01T00:00:12Z by policy default: 1 of 1 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.",
		"The limit was the key's own, 1 per fixed 1m, set at 2026-01-01T00:00:10Z by admin ip:127.0.0.1 (call 2).")
	if e.InForce.LimitOf != "quota" || e.InForce.Limit != 1.0 || e.Now.LimitOf != "quota" {
		t.Errorf("%+v", e)
	}
	s.clock.advance(2 * time.Second)
	s.do(t, "DELETE", quota, "")
	e = s.explain(t, "key=k"+refusedAt, "That has changed: now the limit is the policy's, 3 per fixed 1m.", "A hit of cost 1 passes now.")
	if !e.InForce.Changed || e.InForce.LimitOf != "quota" || e.Now.Limit != 3.0 {
		t.Errorf("%+v", e)
	}
	// After the change there is no hit. A log of old has not been told of the policy either.
	s.clock.advance(2 * time.Second)
	if e = s.explain(t, "key=k&at=2026-01-01T00:00:15Z", "The limit was the policy's, 3 per fixed 1m."); e.InForce.LimitOf != "policy" || e.InForce.Revision != s.revision(t) || e.Count != 2 || !*e.Would {
		t.Errorf("%+v", e)
	}
	mustExec(t, s.dsn, "DELETE FROM api_calls WHERE kind = 'policy_set'")
	if e = s.explain(t, "key=k&at=2026-01-01T00:00:15Z", "The log does not say which limit was in force then; now it is 3 per fixed 1m."); e.InForce.LimitOf != "policy" || e.InForce.Revision != "" || e.Count != 2 || !*e.Would {
		t.Errorf("%+v", e)
	}
	s.do(t, "PUT", quota, `{"limit":0}`)
	s.ping(t, "k")
	e = s.explain(t, "key=k", "k was refused at 2026-01-01T00:00:16Z by policy default: the limit was 0, which blocks every hit.", "The limit is 0: no hit passes before it is changed.")
	if e.Retry != nil || e.Passes != nil {
		t.Errorf("%+v", e)
	}
	// Before its first quota the limit was the policy's.
	if e = s.explain(t, "key=k&at=2026-01-01T00:00:05Z"); e.InForce.LimitOf != "policy" || e.InForce.Limit != 3.0 || e.Known {
		t.Errorf("%+v", e)
	}
}

func TestExplainSaysThatShadowRefusesNobody(t *testing.T) {
	s := servePoliciesWith(t, "policies: {dark: {limit: 1, window: 1m, shadow: true}}\n", withTokens)
	hit := func() answer { return s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["dark"]}`) }
	hit()
	hit()
	e := s.explain(t, "key=k&policy=dark",
		"k would have been refused at 2026-01-01T00:00:10Z by policy dark, which was in shadow: 1 of 1 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.",
		"A hit of cost 1 passes now, because the policy is in shadow.")
	if !e.InForce.Shadow || *e.Retry != 0 {
		t.Errorf("%+v", e)
	}
	s.wantPass(t, e, hit)
}

func TestExplainTellsWhatSlidIn(t *testing.T) {
	s := servePoliciesWith(t, "policies: {slide: {limit: 4, window: sliding 10s}}\n", withTokens)
	hit := func() answer { return s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["slide"]}`) }
	for range 4 { // 00:00:10, the start of a window
		hit()
	}
	s.clock.advance(12 * time.Second)
	hit()
	if a := hit(); a.status != 429 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	e := s.explain(t, "key=k&policy=slide"+s.at(),
		"k was refused at 2026-01-01T00:00:22Z by policy slide: 4 of 4 units were used: 0 in the window 2026-01-01 00:00:20 to 00:00:30 UTC, and 4 that weighed in of the 4 used in the window before.")
	if e.Previous != 4 || e.Carry != 4 || len(e.Spent) != 0 {
		t.Errorf("%+v", e)
	}
	s.wantPass(t, e, hit)
	s.clock.advance(time.Second)
	at := s.at()
	s.clock.advance(5 * time.Second)
	e = s.explain(t, "key=k&policy=slide"+at)
	status := s.do(t, "GET", "/status?key=k&policy=slide", "").body
	if e.Previous != 4 || e.Carry != 3 || e.Used != 1 {
		t.Errorf("%+v, now %s", e, status)
	}
	s.wantPass(t, s.explain(t, "key=k&policy=slide"), hit)
	s.do(t, "DELETE", "/v1/counters?key=k&policy=slide", "")
	if e = s.explain(t, "key=k&policy=slide"); e.Previous != 0 || e.Carry != 0 || e.Used != 0 || len(e.Resets) != 1 {
		t.Errorf("after a reset: %+v", e)
	}
}

// Without a time the last refusal is meant, if there was one within a day.
func TestExplainWithoutATimeTellsOfTheLastRefusal(t *testing.T) {
	s := servePoliciesWith(t, "policies: {default: {limit: 1, window: 1m}, tight: {limit: 1, window: 1m, shadow: true}}\n", withTokens)
	hit := func(policies string) { s.do(t, "POST", "/v1/hits", `{"key":"k","policies":[`+policies+`]}`) }
	want := func(query string, texts ...string) explained { t.Helper(); return s.explainAt(t, query, texts...) }
	s.rulesInLog(t)
	for range 3 {
		hit(`"default"`)
		s.clock.advance(time.Second)
	}
	s.clock.advance(time.Hour)
	hit(`"tight"`)
	hit(`"tight"`) // later, and nobody was held back
	s.clock.advance(time.Hour)
	want("key=k", "k was refused at 2026-01-01T00:00:12Z by policy default: 1 of 1 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.")
	if e := want("key=k&policy=tight"); e.Hit == nil || e.AsOf != "2026-01-01T01:00:13Z" {
		t.Errorf("%+v", e)
	}
	s.clock.advance(24 * time.Hour)
	if e := want("key=k", "A hit of cost 1 passes now."); e.Hit != nil || e.AsOf != s.clock.now().UTC().Format("2006-01-02T15:04:05Z") {
		t.Errorf("a day later: %+v", e)
	}
	want("key=nobody", "A hit of cost 1 passes now.")
}

func TestExplainTellsWhatHasChangedSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		replaceFile(t, file, text)
	}
	write("policies: {default: {limit: 1, window: 1m}, other: {limit: 1, window: 1m}}\n")
	s := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
	first := s.rulesInLog(t)[0]
	putInForce := fmt.Sprintf("The policy was put in force at 2026-01-01T00:00:10Z by revision %s by %s (call 1).", first.RequestID, first.Actor)
	s.ping(t, "k")
	s.ping(t, "k")
	refusedAt := s.at()
	e := s.explain(t, "key=k"+refusedAt, "The limit was the policy's, 1 per fixed 1m.", putInForce)
	if e.InForce.Revision != first.RequestID || e.InForce.Changed {
		t.Errorf("%+v", e)
	}
	s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["other"]}`)
	s.clock.advance(5 * time.Second)
	write("policies: {default: {limit: 5, window: sliding 1m}}\n")
	eventually(t, "the new policies", func() bool { return strings.Contains(s.do(t, "GET", "/v1/policies", "").body, `"limit":5`) })
	second := s.rulesInLog(t)[0]
	e = s.explain(t, "key=k"+refusedAt,
		"k was refused at 2026-01-01T00:00:10Z by policy default: 1 of 1 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.",
		putInForce,
		"That has changed: now the limit is the policy's, 5 per sliding 1m.", "A hit of cost 1 passes now.")
	if !e.InForce.Changed || e.InForce.Window != "fixed 1m" {
		t.Errorf("%+v", e)
	}
	e = s.explain(t, "key=k", "The limit was the policy's, 5 per sliding 1m.",
		fmt.Sprintf("The policy was put in force at 2026-01-01T00:00:15Z by revision %s by %s (call 6).", second.RequestID, second.Actor))
	if e.InForce.Revision != second.RequestID || e.InForce.Changed || second.RequestID == first.RequestID {
		t.Errorf("%+v", e)
	}
	// A policy that is gone is explained from the log.
	e = s.explain(t, "key=k&policy=other&at=2026-01-01T00:00:10Z", "k was allowed at 2026-01-01T00:00:10Z by policy other.", "The policy is in force no more, and refuses nobody.")
	if e.Now != nil || e.Count != 1 || e.Retry != nil {
		t.Errorf("%+v", e)
	}
	s.explain(t, "key=stranger&policy=other", "The policy is in force no more, and refuses nobody.")
}

func TestExplainTellsOfAResetInTheWindow(t *testing.T) {
	s := serve(t, withTokens)
	s.rulesInLog(t)
	for range 4 {
		s.ping(t, "k")
	}
	refusedAt := s.at()
	s.do(t, "DELETE", "/v1/counters?key=k", "") // within the same millisecond
	s.clock.advance(5 * time.Second)
	s.ping(t, "k")
	s.clock.advance(5 * time.Second)
	e := s.explain(t, "key=k"+refusedAt,
		"k was refused at 2026-01-01T00:00:10Z by policy default: 3 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.",
		"The window was reset at 2026-01-01T00:00:10Z by admin ip:127.0.0.1 (call 6).", "A hit of cost 1 passes now.")
	if len(e.Spent) != 3 || len(e.Resets) != 1 {
		t.Errorf("%+v", e)
	}
	e = s.explain(t, "key=k&at=2026-01-01T00:00:12Z", "At 2026-01-01T00:00:12Z 0 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used: a hit of cost 1 would have passed.")
	if e.Count != 0 || e.KnownBy != "reset" || len(e.Spent) != 0 || len(e.Paths) != 0 {
		t.Errorf("%+v", e)
	}
	e = s.explain(t, "key=k&at=2026-01-01T00:00:18Z")
	if e.Count != 1 || len(e.Spent) != 1 || len(e.Paths) != 1 || e.Paths[0].Allowed != 1 {
		t.Errorf("%+v", e)
	}
}

func TestExplainSaysWhatItDoesNotKnow(t *testing.T) {
	s := serve(t, withTokens)
	e := s.explain(t, "key=k&at=2025-12-31T10:00:00Z",
		"The log has no hit of k under policy default within a second of 2025-12-31T10:00:00Z.",
		"Nor does it say what was used in the window 2025-12-31 10:00:00 to 10:01:00 UTC: nobody asked, or it was not logged, or what was logged has been removed.",
		"The log does not say which limit was in force then; now it is 3 per fixed 1m.")
	if e.Known || e.Would != nil || e.InForce.KnownBy != "now" {
		t.Errorf("%+v", e)
	}
	hostile := "a\u202e\u200bb"
	s.explain(t, "key="+url.QueryEscape(hostile), `The log has no hit of "a\u202e\u200bb" under policy default within a second of 2026-01-01T00:00:10Z.`)
	for query, want := range map[string]string{
		"":                                   `422 "parameter":"key"`,
		"key=":                               `422 "parameter":"key"`,
		"key=a&key=b":                        `422 "parameter":"key"`,
		"key=a%00":                           `422 "parameter":"key"`,
		"key=k&when=now":                     `422 "parameter":"when"`,
		"key=k&at=":                          `422 "parameter":"at"`,
		"key=k&at=14:03":                     `422 "parameter":"at"`,
		"key=k&at=2099-01-01T00:00:00Z":      `422 "parameter":"at"`,
		"key=k&at=2026-01-01T00:00:00+09:00": `422 "parameter":"at"`, // the + is a blank
		"key=k&policy=":                      `422 "parameter":"policy"`,
		"key=k&policy=nope":                  `404 unknown-policy`,
		"key=k&policy=no%20pe":               `404 unknown-policy`,
	} {
		status, text, _ := strings.Cut(want, " ")
		if a := s.request(t, "GET", "/v1/explain?"+query, bearer(auditToken)...); fmt.Sprint(a.status) != status || !strings.Contains(a.body, text) {
			t.Errorf("%q: %d %s, want %s", query, a.status, a.body, want)
		}
	}
	for _, headers := range [][]string{nil, bearer(clientToken)} {
		if a := s.request(t, "GET", "/v1/explain?key=k", headers...); a.status != 401 && a.status != 403 {
			t.Errorf("with %v: %d", headers, a.status)
		}
	}
}

func TestExplainWorksOnALogThatKeepsNoHits(t *testing.T) {
	s := serve(t, withTokens)
	s.ping(t, "k")
	mustExec(t, s.dsn, "DELETE FROM api_calls")
	if e := s.explain(t, "key=k", "At 2026-01-01T00:00:10Z 1 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used: a hit of cost 1 would have passed."); e.KnownBy != "now" || e.Count != 1 {
		t.Errorf("%+v", e)
	}
}

func TestWithHashKeysUsageAndExplainShowNoKey(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.HashKeys = secretFile(t, secret) })
	for range 4 {
		s.ping(t, rawKey)
	}
	hashed := hashedKey(secret, rawKey)
	for _, key := range []string{rawKey, hashed} { // named as it is or as it is shown
		e := s.explain(t, "key="+key, hashed+" was refused at 2026-01-01T00:00:10Z by policy default: 3 of 3 units of the window 2026-01-01 00:00:00 to 00:01:00 UTC were used.")
		wantNoRawKey(t, "an explanation", e.Text)
		s.usage(t, "by=key&key="+key, hashed+" 3 1")
	}
}

func TestExplainTellsWhenAHitOfTheRefusedCostPasses(t *testing.T) {
	s := servePoliciesWith(t, "policies: {slide: {limit: 5, window: sliding 10s}}\n", func(c *ratelimitlog.Config) { c.AdminToken, c.AuditToken = adminToken, auditToken })
	hit := func(cost int) int {
		return s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"k","policies":["slide"],"cost":%d}`, cost)).status
	}
	if hit(4) != 200 || hit(4) != 429 {
		t.Fatal("4 of 5 units, and 4 more")
	}
	e := s.explain(t, "key=k", "A hit of cost 4 passes at 2026-01-01T00:00:28Z, 18 seconds from 2026-01-01T00:00:10Z, if nobody else asks.")
	if e.Passes == nil {
		t.Fatalf("%+v", e)
	}
	at, err := time.Parse(time.RFC3339, *e.Passes)
	if err != nil {
		t.Fatal(err)
	}
	s.clock.advance(at.Sub(s.clock.now()) - time.Second)
	if status := hit(4); status != 429 {
		t.Errorf("a second before: %d", status)
	}
	s.clock.advance(time.Second)
	if status := hit(4); status != 200 {
		t.Errorf("at the time that was told: %d", status)
	}
}
