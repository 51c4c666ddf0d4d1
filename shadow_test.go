package ratelimitlog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

const inShadow = `policies:
  default: {limit: 5, window: 1m}
  strict: {limit: 2, window: 1m, shadow: %v}
routes: [{path: /ping, key: header X-Client-Key, policies: [default, strict]}]
`

func TestAPolicyInShadowCountsAndRefusesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(shadow bool) {
		t.Helper()
		replaceFile(t, file, fmt.Sprintf(inShadow, shadow))
	}
	write(true)
	s := serve(t, func(c *ratelimitlog.Config) { c.PolicyFile, c.ReloadEvery = file, 10*time.Millisecond })
	const hit = `{"key":"k","policies":["strict","default"]}`
	for i := 1; i <= 7; i++ { // two pass both, three only the live one, two none
		a := s.post(t, "/v1/hits", hit)
		status, strict, used := 200, true, i
		if i > 2 {
			strict = false
		}
		if i > 5 {
			status, used = 429, 5
		}
		want := fmt.Sprintf(`"policies":[{"policy":"strict","allowed":%v,"shadow":true,"limit":2,"count":%d,"refused":%d,"remaining":%d,`, strict, i, max(i-2, 0), max(2-i, 0))
		if a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("hit %d: %d %s, want %d with %s", i, a.status, a.body, status, want)
		}
		a.wantHeader(t, "RateLimit-Policy", `"default";q=5;w=60`)
		a.wantHeader(t, "RateLimit", fmt.Sprintf(`"default";r=%d;t=50`, 5-used))
		a.wantHeader(t, "X-RateLimit-Limit", "5")
		if status == 429 && !strings.Contains(a.body, `"violated-policies":["default"]`) {
			t.Errorf("refused by %s", a.body)
		}
	}
	s.request(t, "GET", "/status?key=k&policy=strict").want(t, 200,
		`{"key":"k","policy":"strict","shadow":true,"limit":2,"count":7,"refused":5,"remaining":0,"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:01:00Z"}`)
	if a := s.request(t, "GET", "/v1/policies"); !strings.Contains(a.body, `{"name":"strict","limit":2,"window":"fixed 1m","shadow":true}`) {
		t.Errorf("policies: %s", a.body)
	}
	if a := s.ping(t, "other"); a.status != 200 || !strings.Contains(a.body, `"policy":"default","limit":5,"count":1`) {
		t.Errorf("a ping tells of the live policy: %s", a.body)
	}
	if a := s.post(t, "/v1/hits", `{"key":"big","policies":["strict","default"],"cost":4}`); a.status != 200 || !strings.Contains(a.body, `"policy":"strict","allowed":false,"shadow":true,"limit":2,"count":4,"refused":4`) {
		t.Errorf("a cost above the limit of the policy in shadow: %d %s", a.status, a.body)
	}

	// The log says what it would have done, and adds up.
	var used, refused int64
	for _, call := range callsOf(t, s, domain.CallQuery{Key: "k", Policy: "strict", OldestFirst: true, Limit: 100}) {
		if !call.Shadow {
			t.Errorf("call %+v is not in shadow", call)
		}
		if call.Allowed {
			used += call.Cost * call.Hits
		} else {
			refused += call.Cost * call.Hits
		}
	}
	if used != 2 || refused != 5 {
		t.Errorf("the log has %d used and %d refused, want 2 and 5", used, refused)
	}

	// Turned live it starts from what was used, not from what was attempted.
	s.request(t, "GET", "/ping", "X-Client-Key", "half")
	write(false)
	for begun := time.Now(); strings.Contains(s.request(t, "GET", "/v1/policies").body, "shadow"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the policy is in shadow still")
		}
	}
	if a := s.ping(t, "half"); a.status != 200 {
		t.Errorf("the second of two: %d %s", a.status, a.body)
	}
	if a := s.ping(t, "half"); a.status != 429 || !strings.Contains(a.body, `"violated-policies":["strict"]`) {
		t.Errorf("the third of two: %d %s", a.status, a.body)
	}
	if a := s.ping(t, "k"); a.status != 429 || !strings.Contains(a.body, `"violated-policies":["default","strict"]`) {
		t.Errorf("k under both: %d %s", a.status, a.body)
	}
	s.clock.advance(time.Minute)
	if a := s.ping(t, "k"); a.status != 200 {
		t.Errorf("in the next minute: %d", a.status)
	}
}

// callsOf reads the audit log of a server.
func callsOf(t *testing.T, s *service, query domain.CallQuery) []domain.Call {
	t.Helper()
	history, closeLog, err := ratelimitlog.NewHistory(context.Background(), ratelimitlog.Config{DSN: s.config.DSN, AuditDSN: s.config.AuditDSN, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	calls, err := history.Calls(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func TestWhenAllPoliciesAreInShadowNoLimitIsTold(t *testing.T) {
	s := servePolicies(t, "policies: {default: {limit: 1, window: 1m, shadow: true}}\n")
	for i := 1; i <= 3; i++ {
		a := s.ping(t, "k")
		if a.status != 200 || !strings.Contains(a.body, fmt.Sprintf(`"policy":"default","limit":1,"count":%d,"remaining":0`, i)) {
			t.Errorf("ping %d: %d %s", i, a.status, a.body)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
			a.wantHeader(t, name)
		}
		a.wantHeader(t, "Cache-Control", "no-store")
	}
}

func TestAdministrationIsInTheLog(t *testing.T) {
	s := serve(t, withTokens)
	s.do(t, "PUT", "/v1/quotas?policy=default&key=k", `{"limit":7}`)
	s.do(t, "DELETE", "/v1/quotas?policy=default&key=k", "")
	s.do(t, "DELETE", "/v1/counters?key=k", "")
	s.stop()
	var got []string
	for _, c := range callsOf(t, s, domain.CallQuery{Key: "k", OldestFirst: true, Limit: 10}) {
		if c.RequestID == "" || !c.At.Equal(s.clock.now()) {
			t.Errorf("call %+v", c)
		}
		got = append(got, fmt.Sprint(c.Kind, " ", c.Method, " ", c.Path))
	}
	if want := "quota_set PUT /v1/quotas, quota_unset DELETE /v1/quotas, reset DELETE /v1/counters"; strings.Join(got, ", ") != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
