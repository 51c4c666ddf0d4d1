package ratelimitlog_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

// servePolicies runs a server with a policy file.
func servePolicies(t *testing.T, policies string) *service {
	t.Helper()
	return servePoliciesWith(t, policies, nil)
}

// servePoliciesWith is servePolicies with more to the configuration.
func servePoliciesWith(t *testing.T, policies string, change func(*ratelimitlog.Config)) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, func(c *ratelimitlog.Config) {
		c.PolicyFile = file
		if change != nil {
			change(c)
		}
	})
}

const burstAndDaily = `policies:
  burst: {limit: 2, window: 1m}
  daily: {limit: 3, window: calendar day Asia/Tokyo}
`

func TestAHitOnSeveralPoliciesIsAllOrNothing(t *testing.T) { // case 46
	s := servePolicies(t, burstAndDaily)
	const hit = `{"key":"alice","policies":["burst","daily"],"cost":1}`
	counter := func(policy string, allowed bool, limit, count, refused, remaining int, start, end string) string {
		return fmt.Sprintf(`{"policy":"%s","allowed":%v,"limit":%d,"count":%d,"refused":%d,"remaining":%d,"window_start":"%s","window_end":"%s"}`,
			policy, allowed, limit, count, refused, remaining, start, end)
	}
	day, next := "2025-12-31T15:00:00Z", "2026-01-01T15:00:00Z"
	minute := []string{"2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"}
	for i := 1; i <= 2; i++ {
		a := s.post(t, "/v1/hits", hit)
		a.want(t, 200, `{"allowed":true,"retry_after":0,"key":"alice","cost":1,"policies":[`+
			counter("burst", true, 2, i, 0, 2-i, minute[0], minute[1])+","+counter("daily", true, 3, i, 0, 3-i, day, next)+`]}`)
		a.wantHeader(t, "RateLimit-Policy", `"burst";q=2;w=60, "daily";q=3;w=86400`)
		a.wantHeader(t, "RateLimit", fmt.Sprintf(`"burst";r=%d;t=50, "daily";r=%d;t=53990`, 2-i, 3-i))
		a.wantHeader(t, "X-RateLimit-Limit", "2")
	}
	a := s.post(t, "/v1/hits", `{"policies":["daily","burst"],"key":"alice"}`) // the order is irrelevant, the cost 1
	a.want(t, 429, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/rate-limit-exceeded","title":"Too Many Requests","status":429,`+
		`"detail":"Rate limit of 2 requests per 60s exceeded for key 'alice'.","instance":"/v1/hits","policy":"burst","limit":2,"window_seconds":60,`+
		`"retry_after":50,"violated-policies":["burst"],"allowed":false,"key":"alice","cost":1,"policies":[`+
		counter("daily", true, 3, 2, 0, 1, day, next)+","+counter("burst", false, 2, 3, 1, 0, minute[0], minute[1])+`]}`)
	a.wantHeader(t, "Retry-After", "50")
	s.clock.advance(50 * time.Second)
	if a := s.post(t, "/v1/hits", hit); a.status != 200 {
		t.Errorf("in the next minute: %d %s", a.status, a.body)
	}
	a = s.post(t, "/v1/hits", hit)
	if a.status != 429 || a.header.Get("Retry-After") != "53940" || !strings.Contains(a.body, `"violated-policies":["daily"]`) {
		t.Errorf("beyond the day's quota: %d %s", a.status, a.body)
	}
	s.request(t, "GET", "/v1/counters?key=alice").want(t, 200, `{"key":"alice","counters":[`+
		counter("burst", true, 2, 1, 0, 1, minute[1], minute[2])+","+counter("daily", true, 3, 4, 1, 0, day, next)+","+
		counter("default", true, 3, 0, 0, 3, minute[1], minute[2])+`]}`)
	if a := s.post(t, "/v1/hits?cost=2", hit); a.status != 422 || !strings.Contains(a.body, `"parameter":"cost"`) {
		t.Errorf("a cost beside the body: %d %s", a.status, a.body)
	}
	if a := s.request(t, "GET", "/v1/counters?key=alice&policy=daily"); !strings.HasPrefix(a.body, `{"key":"alice","counters":[{"policy":"daily","allowed":true,"limit":3,"count":4,`) || strings.Count(a.body, "policy") != 1 {
		t.Errorf("one counter: %s", a.body)
	}
}

func TestAPolicyThatDoesNotRefuseIsNotChargedForWhatAnotherRefuses(t *testing.T) {
	s := servePolicies(t, "policies: {user: {limit: 1, window: 1m}, site: {limit: 100, window: 1m}}\n")
	allowed := 0
	for range 50 {
		if s.post(t, "/v1/hits", `{"key":"k","policies":["site","user"]}`).status == 200 {
			allowed++
		}
	}
	a := s.request(t, "GET", "/v1/counters?key=k")
	if allowed != 1 || !strings.Contains(a.body, `"policy":"site","allowed":true,"limit":100,"count":1,"refused":0,"remaining":99`) ||
		!strings.Contains(a.body, `"policy":"user","allowed":true,"limit":1,"count":50,"refused":49,"remaining":0`) {
		t.Errorf("%d allowed, %s", allowed, a.body)
	}
}

func TestThePoliciesInForceAreShown(t *testing.T) {
	s := servePolicies(t, "policies:\n  free: {limit: unlimited, window: sliding 10s}\n  default: {limit: 7, window: 1h}\n")
	s.request(t, "GET", "/v1/policies").want(t, 200, `{"revision":"`+s.revision(t)+`","policies":[{"name":"default","limit":7,"window":"fixed 1h"},{"name":"free","limit":"unlimited","window":"sliding 10s"}]}`)
	if a := s.ping(t, "k"); !strings.Contains(a.body, `"limit":7`) {
		t.Errorf("the file's default policy does not apply: %s", a.body)
	}
}

func TestABadPolicyFileDoesNotStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  a: {limit: -1, window: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := ratelimitlog.NewServer(t.Context(), ratelimitlog.Config{DSN: "sqlite::memory:", PolicyFile: file})
	if err == nil || !strings.Contains(err.Error(), `policies.yaml:2:14: policy a: limit "-1"`) {
		t.Errorf("err = %v", err)
	}
}

func TestBodiesThatMakeNoSensePointAtTheMember(t *testing.T) { // cases 31, 32, 145
	s := servePolicies(t, burstAndDaily)
	for body, want := range map[string]string{
		``:             `"detail":"the body must be a JSON object","pointer":"#"`,
		`[]`:           `"detail":"the body must be a JSON object","pointer":"#"`,
		`{"key":"a"`:   `"pointer":"#"`,
		`{"key":"a",}`: `"pointer":"#"`,
		`{"key" "a"}`:  `"pointer":"#"`,
		"{\"key\":\"\xff\",\"policies\":[\"burst\"]}":                  `"detail":"the body is not valid UTF-8","pointer":"#"`,
		`{"key":"a","policies":["burst"]} {}`:                          `"detail":"something follows the JSON object","pointer":"#"`,
		`{"key":"a","policies":["burst"],"Cost":1}`:                    `"detail":"there is no member \"Cost\"","pointer":"#/Cost"`,
		`{"key":"a","policies":["burst"],"a/b~":1}`:                    `"pointer":"#/a~1b~0"`,
		`{"key":"a","key":"b","policies":["burst"]}`:                   `"detail":"the member \"key\" stands more than once","pointer":"#/key"`,
		`{"policies":["burst"]}`:                                       `"detail":"the member \"key\" is missing","pointer":"#/key"`,
		`{"key":"a"}`:                                                  `"detail":"the member \"policies\" is missing","pointer":"#/policies"`,
		`{"key":null,"policies":["burst"]}`:                            `"detail":"it must be a string","pointer":"#/key"`,
		`{"key":1,"policies":["burst"]}`:                               `"detail":"it must be a string","pointer":"#/key"`,
		`{"key":"","policies":["burst"]}`:                              `"detail":"key must not be empty","pointer":"#/key"`,
		`{"key":"a\u0000","policies":["burst"]}`:                       `"detail":"key has the control character U+0000 at byte 1","pointer":"#/key"`,
		`{"key":"\ud800","policies":["burst"]}`:                        `"detail":"it has half of a surrogate pair","pointer":"#/key"`,
		`{"key":"a\udc00","policies":["burst"]}`:                       `half of a surrogate pair`,
		`{"key":"\ud800a","policies":["burst"]}`:                       `half of a surrogate pair`,
		`{"key":"\\ufffd\ud800","policies":["burst"]}`:                 `half of a surrogate pair`,
		`{"key":"\ud83d\ud83d\ude00","policies":["burst"]}`:            `half of a surrogate pair`,
		`{"key":"a","policies":"burst"}`:                               `"detail":"it must be a list of strings","pointer":"#/policies"`,
		`{"key":"a","policies":[]}`:                                    `"detail":"policies must name at least one policy","pointer":"#/policies"`,
		`{"key":"a","policies":["burst",1]}`:                           `"detail":"it must be a string","pointer":"#/policies/1"`,
		`{"key":"a","policies":["burst","burst"]}`:                     `"detail":"policies name \"burst\" twice","pointer":"#/policies"`,
		`{"key":"a","policies":["burst"],"cost":-1}`:                   `"detail":"cost is -1, it must be 0 to 999999999999999","pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":1.5}`:                  `"pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":1e30}`:                 `"pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":"1"}`:                  `"pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":null}`:                 `"pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":3}`:                    `"detail":"cost of 3 can never pass, policy burst allows 2 per window","pointer":"#/cost"`,
		`{"key":"a","policies":["burst"],"cost":99999999999999999999}`: `"pointer":"#/cost"`,
	} {
		a := s.post(t, "/v1/hits", body)
		if a.status != 422 || !strings.Contains(a.body, `"errors":[{`) || !strings.Contains(a.body, want) || a.header.Get("Retry-After") != "" {
			t.Errorf("%s\nanswer %d %s\nwant   422 with %s", body, a.status, a.body, want)
		}
	}
	a := s.post(t, "/v1/hits", `{"key":"a","policies":["burst","nope"]}`)
	if a.status != 404 || !strings.Contains(a.body, `there is no policy named \"nope\"`) {
		t.Errorf("an unknown policy: %d %s", a.status, a.body)
	}
	// The answer does not wait for the body: a client that is still sending one may miss it.
	if a := s.raw(t, "POST /v1/hits HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 70000\r\n\r\n"); a.status != 413 {
		t.Errorf("a body of 70000 bytes: %d", a.status)
	}
	if a := s.request(t, "GET", "/v1/hits"); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("GET: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
	if a := s.request(t, "GET", "/v1/counters?key=a"); strings.Contains(a.body, `"count":1`) {
		t.Errorf("something was counted: %s", a.body)
	}
}

func TestKeysInJSONAreTheCharactersThatTheyStandFor(t *testing.T) { // case 53
	s := servePolicies(t, burstAndDaily)
	for written, key := range map[string]string{`\ud83d\ude00`: "\U0001F600", `\\ufffd`: `\ufffd`, `\ufffd`: "\ufffd", `\u00e9`: "\u00e9", `\/\"`: `/"`} {
		a := s.post(t, "/v1/hits", `{"key":"`+written+`","policies":["burst"],"cost":0}`)
		var got struct{ Key string }
		if decodeJSON(t, a.body, &got); a.status != 200 || got.Key != key {
			t.Errorf("%s is %q, want %q: %d %s", written, got.Key, key, a.status, a.body)
		}
	}
}

func TestPackedBodiesAreNotUnpacked(t *testing.T) {
	s := servePolicies(t, burstAndDaily)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintf(w, `{"key":"k","policies":["burst"]%s}`, strings.Repeat(" ", 10<<20)) // 10 MiB in some 10 kB
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := s.raw(t, fmt.Sprintf("POST /v1/hits HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", packed.Len(), packed.String()))
	if a.status != 422 || !strings.Contains(a.body, `"detail":"the body is not valid UTF-8","pointer":"#"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestCostZeroOverHTTPLooks(t *testing.T) {
	s := servePolicies(t, burstAndDaily)
	for range 2 {
		s.post(t, "/v1/hits", `{"key":"k","policies":["burst"],"cost":1}`)
	}
	for range 3 {
		if a := s.post(t, "/v1/hits", `{"key":"k","policies":["burst"],"cost":0}`); a.status != 200 || !strings.Contains(a.body, `"count":2,"refused":0,"remaining":0`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestALimitThatChangesUnderUseLeavesTheDifference(t *testing.T) { // cases 86, 142, 143
	file := filepath.Join(t.TempDir(), "policies.yaml")
	s := serve(t, func(c *ratelimitlog.Config) {
		c.PolicyFile, c.ReloadEvery = file, 10*time.Millisecond
		if err := os.WriteFile(file, []byte("policies: {default: {limit: 10, window: 1m}}"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	change := func(limit string) {
		t.Helper()
		replaceFile(t, file, "policies: {default: {limit: "+limit+", window: 1m}}")
		for begun := time.Now(); !strings.Contains(s.request(t, "GET", "/v1/policies").body, `"limit":`+limit+","); time.Sleep(time.Millisecond) {
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("the limit never becomes %s", limit)
			}
		}
	}
	for range 7 {
		s.ping(t, "k")
	}
	change("5")
	if a := s.request(t, "GET", "/status?key=k"); !strings.Contains(a.body, `"limit":5,"count":7,"refused":0,"remaining":0`) {
		t.Errorf("status %s", a.body)
	}
	if a := s.ping(t, "k"); a.status != 429 || a.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("ping: %d %v", a.status, a.header)
	}
	change("20")
	for i := 1; i <= 14; i++ {
		if a := s.ping(t, "k"); a.status != map[bool]int{true: 200, false: 429}[i <= 13] {
			t.Errorf("ping %d: %d", i, a.status)
		}
	}
}

func TestAPolicyFileIsReloadedWholeOrNotAtAll(t *testing.T) { // cases 139, 140, 142, 143, 146
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		replaceFile(t, file, text)
	}
	write("policies: {default: {limit: 3, window: 1m}, other: {limit: 9, window: 1m}}")
	s := serve(t, func(c *ratelimitlog.Config) { c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
	limitBecomes := func(limit string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			a := s.post(t, "/v1/hits", `{"key":"look","policies":["default"],"cost":0}`)
			if a.header.Get("X-RateLimit-Limit") == limit {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the limit is %s still, want %s", a.header.Get("X-RateLimit-Limit"), limit)
			}
		}
	}
	wantPings := func(statuses ...int) {
		t.Helper()
		for i, status := range statuses {
			if a := s.ping(t, "k"); a.status != status {
				t.Errorf("ping %d: %d, want %d", i+1, a.status, status)
			}
		}
	}
	s.post(t, "/v1/hits", `{"key":"k","policies":["other"]}`)
	wantPings(200, 200, 200, 429)
	write("policies: {default: {limit: 5, window: 1m}, other: {limit: 9, window: 1m}}")
	limitBecomes("5")
	wantPings(200, 200, 429) // exactly two more, at once
	for _, bad := range []struct{ text, why string }{
		{"", "one document"}, {"::", "the file has no member"}, {"policies: [1]", "must be a mapping"}, {"policies: {default: {window: 1m}}", "has no limit"},
		{"policies: {default: {limit: 100, window: 1m}, other: {limit: x, window: 1m}}", "is not a whole number"}, {"policies: {default: {limit: 10", "not YAML"},
	} {
		write(bad.text)
		for deadline := time.Now().Add(10 * time.Second); ; {
			a := s.request(t, "GET", "/readyz")
			if a.status == 200 && strings.Contains(a.body, `"status":"ready","last_reload":"failed: `+file+":") && strings.Contains(a.body, bad.why) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q: readyz says %d %s", bad.text, a.status, a.body)
			}
		}
		limitBecomes("5")
		wantPings(429)
	}
	if !strings.Contains(s.log.String(), "the policies are not changed") || !strings.Contains(s.log.String(), `limit \"x\" is not a whole number`) {
		t.Errorf("the log does not tell why: %s", s.log)
	}
	write("policies: {default: {limit: 4, window: 1m}, other: {limit: 9, window: 1m}}")
	limitBecomes("4")
	wantPings(429)
	s.request(t, "GET", "/readyz").want(t, 200, `{"status":"ready","last_reload":"ok","revision":"`+s.revision(t)+`"}`)
	if a := s.request(t, "GET", "/v1/counters?key=k&policy=other"); !strings.Contains(a.body, `"count":1,`) {
		t.Errorf("an unrelated policy lost its count: %s", a.body)
	}
	write("policies: {other: {limit: 9, window: 1h}}") // another schedule, and the default from the flags
	limitBecomes("3")
	if a := s.request(t, "GET", "/v1/counters?key=k&policy=other"); !strings.Contains(a.body, `"count":0,`) {
		t.Errorf("a policy with another schedule kept its count: %s", a.body)
	}
	before := runtime.NumGoroutine()
	for i := range 300 {
		limit := fmt.Sprint(10 + i%7)
		write("policies: {default: {limit: " + limit + ", window: 1m}}")
		limitBecomes(limit)
	}
	// The last reloads may be on their way to the log still: what they started ends.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		after := runtime.NumGoroutine()
		if after <= before+5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after 300 reloads, %d before", after, before)
		}
	}
}
