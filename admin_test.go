package ratelimitlog_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	adminToken  = "adm1n-t0ken"
	auditToken  = "aud1t-t0ken"
	clientToken = "cl1ent-t0ken"
)

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// do is a request of the administrator.
func (s *service) do(t testing.TB, method, target, body string) answer {
	t.Helper()
	return s.send(t, http.DefaultClient, method, target, body, bearer(adminToken)...)
}

func withTokens(c *ratelimitlog.Config) {
	c.AdminToken, c.AuditToken, c.ClientToken = adminToken, auditToken, clientToken
}

var adminRoutes = []string{"DELETE /v1/counters?key=k", "GET /v1/quotas?policy=default", "PUT /v1/quotas?policy=default&key=k", "DELETE /v1/quotas?policy=default&key=k"}

func TestWithoutAnAdminTokenItsRoutesAreClosed(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.AuditToken, c.ClientToken = auditToken, "" })
	for _, route := range adminRoutes {
		method, target, _ := strings.Cut(route, " ")
		for _, headers := range [][]string{nil, bearer(""), bearer("x"), bearer(auditToken)} {
			if a := s.send(t, http.DefaultClient, method, target, `{"limit":5}`, headers...); a.status != 403 || a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s with %v: %d %s", route, headers, a.status, a.body)
			}
		}
	}
	if a := s.request(t, "GET", "/v1/counters?key=k"); a.status != 200 || !strings.Contains(a.body, `"limit":3,`) {
		t.Errorf("what needs no token: %d %s", a.status, a.body)
	}
}

func TestATokenOpensWhatIsItsRoles(t *testing.T) {
	s := serve(t, withTokens)
	hit := `{"key":"k","policies":["default"],"cost":0}`
	for _, route := range append(adminRoutes, "GET /v1/counters?key=k", "GET /v1/policies", "GET /status?key=k", "POST /v1/hits") {
		method, target, _ := strings.Cut(route, " ")
		body := map[bool]string{true: `{"limit":5}`, false: hit}[method == "PUT"]
		isAdmins := strings.Contains(strings.Join(adminRoutes, ","), route)
		for _, c := range []struct {
			headers []string
			status  int
			www     string
		}{
			{nil, 401, `Bearer realm="ratelimitlog"`},
			{[]string{"Authorization", "Basic " + adminToken}, 401, `Bearer realm="ratelimitlog"`},
			{append(bearer(adminToken), bearer(adminToken)...), 401, `Bearer realm="ratelimitlog"`},
			{bearer(adminToken + "x"), 401, `Bearer realm="ratelimitlog", error="invalid_token"`},
			{bearer(auditToken), 403, `Bearer realm="ratelimitlog", error="insufficient_scope"`},
			{bearer(clientToken), map[bool]int{true: 403, false: 200}[isAdmins], ""},
			{bearer(adminToken), 200, ""},
			{[]string{"Authorization", "bearer  " + adminToken}, 200, ""},
		} {
			a := s.send(t, http.DefaultClient, method, target, body, c.headers...)
			status := a.status
			if status == 204 {
				status = 200
			}
			if status != c.status || c.www != "" && a.header.Get("WWW-Authenticate") != c.www {
				t.Errorf("%s with %q: %d %s %q, want %d", route, c.headers, a.status, a.body, a.header.Get("WWW-Authenticate"), c.status)
			}
		}
	}
	if a := s.ping(t, "k"); a.status != 200 {
		t.Errorf("/ping needs no token: %d", a.status)
	}
}

func TestWrongTokensAreLimitedByAddress(t *testing.T) {
	s := serve(t, withTokens)
	target := "/v1/quotas?policy=default"
	for i := range 25 {
		want := map[bool]int{true: 401, false: 429}[i < 20]
		a := s.request(t, "GET", target, bearer(fmt.Sprint("guess", i))...)
		if a.status != want || want == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("wrong token %d: %d %s", i+1, a.status, a.body)
		}
	}
	if a := s.request(t, "GET", target, bearer(adminToken)...); a.status != 429 {
		t.Errorf("the right guess after twenty wrong ones: %d", a.status)
	}
	if a := s.send(t, from(t, "127.0.0.2"), "GET", target, "", bearer(adminToken)...); a.status != 200 {
		t.Errorf("the administrator at another address: %d", a.status)
	}
	if !strings.Contains(s.log.String(), "too many wrong tokens") || strings.Contains(s.log.String(), "guess") {
		t.Errorf("log: %s", s.log)
	}
}

func TestNoTokenReachesTheLog(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.LogLevel = "debug" })
	for _, token := range []string{adminToken, auditToken, clientToken, "wr0ng-t0ken"} {
		for _, route := range append(adminRoutes, "GET /v1/policies", "GET /nope", "PATCH /v1/quotas", "POST /v1/hits") {
			method, target, _ := strings.Cut(route, " ")
			s.send(t, http.DefaultClient, method, target, `{"limit":5}`, bearer(token)...)
		}
		s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\nX bad: x\r\n\r\n") // cannot be read
	}
	s.stop()
	if log := s.log.String(); strings.Contains(log, "t0ken") || !strings.Contains(log, `"status":403`) {
		t.Errorf("log: %s", log)
	}
	data, err := os.ReadFile(strings.TrimPrefix(s.dsn, "sqlite:"))
	if err != nil || strings.Contains(string(data), "t0ken") {
		t.Errorf("a token is in the database, %v", err)
	}
}

func TestTokensThatCannotBeSentAreRefused(t *testing.T) {
	for _, token := range []string{"a b", "tök", "a\n"} {
		_, _, err := ratelimitlog.NewServer(t.Context(), ratelimitlog.Config{DSN: "sqlite::memory:", AdminToken: token})
		if err == nil || !strings.Contains(err.Error(), "admin-token must be visible ASCII") || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestAdminsResetTheCountersOfAKey(t *testing.T) { // case 152
	s := servePoliciesWith(t, burstAndDaily, withTokens)
	used := func(key string) string {
		var counts []string
		for _, part := range strings.Split(s.do(t, "GET", "/v1/counters?key="+key, "").body, `"count":`)[1:] {
			counts = append(counts, strings.SplitN(part, ",", 2)[0])
		}
		return strings.Join(counts, " ")
	}
	hit := func(key string) {
		s.do(t, "POST", "/v1/hits", `{"key":"`+key+`","policies":["burst","daily"]}`)
	}
	for _, key := range []string{"user1", "user10", "userA1", "user_1"} {
		hit(key)
	}
	s.do(t, "DELETE", "/v1/counters?key=user1&policy=burst", "").want(t, 204, "")
	if got := used("user1"); got != "0 1 0" { // burst, daily, default
		t.Errorf("after a reset of burst: %s", got)
	}
	for range 2 { // idempotent
		s.do(t, "DELETE", "/v1/counters?key=user_1", "").want(t, 204, "")
	}
	if got := used("user_1") + ", " + used("userA1") + ", " + used("user10"); got != "0 0 0, 1 1 0, 1 1 0" {
		t.Errorf("after a reset of user_1: %s", got)
	}
	for target, status := range map[string]int{"/v1/counters": 422, "/v1/counters?key=": 422, "/v1/counters?key=k&policy=nope": 404, "/v1/counters?key=k&policy=": 404, "/v1/counters?key=a&key=b": 422} {
		if a := s.do(t, "DELETE", target, ""); a.status != status {
			t.Errorf("%s: %d %s, want %d", target, a.status, a.body, status)
		}
	}
	if got := used("userA1"); got != "1 1 0" {
		t.Errorf("something else was reset: %s", got)
	}
}

func TestAQuotaIsAKeysOwnLimit(t *testing.T) { // case 152
	s := serve(t, withTokens) // 3 a minute
	const quota = "/v1/quotas?policy=default&key=alice"
	statuses := func(key string, n int) (got string) {
		for range n {
			got += fmt.Sprint(s.ping(t, key).status, " ")
		}
		return got
	}
	if a := s.do(t, "GET", quota, ""); a.status != 404 || !strings.Contains(a.body, "/problems/no-quota") {
		t.Errorf("no quota: %d %s", a.status, a.body)
	}
	if got := statuses("alice", 4); got != "200 200 200 429 " {
		t.Errorf("the policy's limit: %s", got)
	}
	s.do(t, "PUT", quota, `{"limit":5}`).want(t, 200, `{"policy":"default","key":"alice","limit":5}`)
	s.do(t, "GET", quota, "").want(t, 200, `{"policy":"default","key":"alice","limit":5}`)
	if got := statuses("alice", 3) + statuses("bob", 4); got != "200 200 429 200 200 200 429 " {
		t.Errorf("five for alice, three for bob: %s", got)
	}
	if a := s.ping(t, "alice"); a.header.Get("X-RateLimit-Limit") != "5" || !strings.Contains(a.body, `"limit":5,`) {
		t.Errorf("the answer tells %v %s", a.header, a.body)
	}
	if a := s.do(t, "GET", "/status?key=alice", ""); !strings.Contains(a.body, `"limit":5,"count":8,"refused":3,"remaining":0`) {
		t.Errorf("status %s", a.body)
	}
	s.do(t, "PUT", quota, `{"limit":"unlimited"}`).want(t, 200, `{"policy":"default","key":"alice","limit":"unlimited"}`)
	if got := statuses("alice", 2); got != "200 200 " {
		t.Errorf("unlimited: %s", got)
	}
	s.do(t, "PUT", quota, `{"limit":0}`).want(t, 200, `{"policy":"default","key":"alice","limit":0}`)
	if got := statuses("alice", 1); got != "429 " {
		t.Errorf("blocked: %s", got)
	}
	s.clock.advance(time.Minute)
	if a := s.do(t, "POST", "/v1/hits", `{"key":"alice","policies":["default"],"cost":3}`); a.status != 429 {
		t.Errorf("blocked in the next minute: %d %s", a.status, a.body)
	}
	for range 2 { // idempotent
		s.do(t, "DELETE", quota, "").want(t, 204, "")
	}
	if got := statuses("alice", 4); got != "200 200 200 429 " {
		t.Errorf("the policy's limit again: %s", got)
	}
	s.do(t, "PUT", quota, `{"limit":1}`)
	if a := s.do(t, "POST", "/v1/hits", `{"key":"alice","policies":["default"],"cost":2}`); a.status != 422 || !strings.Contains(a.body, "cost of 2 can never pass, policy default allows 1 per window") {
		t.Errorf("a cost above the own limit: %d %s", a.status, a.body)
	}
}

func TestQuotasThatMakeNoSenseAreRefused(t *testing.T) {
	s := serve(t, withTokens)
	const quota = "/v1/quotas?policy=default&key=k"
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"PUT", quota, ``, 422, `"pointer":"#"`},
		{"PUT", quota, `{}`, 422, `"detail":"the member \"limit\" is missing","pointer":"#/limit"`},
		{"PUT", quota, `{"limit":-1}`, 422, `"pointer":"#/limit"`},
		{"PUT", quota, `{"limit":1.5}`, 422, `"pointer":"#/limit"`},
		{"PUT", quota, `{"limit":"5"}`, 422, `"pointer":"#/limit"`},
		{"PUT", quota, `{"limit":null}`, 422, `"pointer":"#/limit"`},
		{"PUT", quota, `{"limit":1000000000000000}`, 422, `it must be a whole number from 0 to 999999999999999, or \"unlimited\"`},
		{"PUT", quota, `{"limit":5,"key":"other"}`, 422, `there is no member \"key\"`},
		{"PUT", "/v1/quotas?policy=default", `{"limit":5}`, 422, `"parameter":"key"`},
		{"PUT", "/v1/quotas?policy=default&key=a%00", `{"limit":5}`, 422, `U+0000 at byte 1`},
		{"PUT", "/v1/quotas?key=k", `{"limit":5}`, 422, `"parameter":"policy"`},
		{"PUT", "/v1/quotas?policy=nope&key=k", `{"limit":5}`, 404, `there is no policy named \"nope\"`},
		{"DELETE", "/v1/quotas?policy=default&key=", ``, 422, `"parameter":"key"`},
		{"DELETE", "/v1/quotas?policy=default", ``, 422, `"parameter":"key"`},
		{"GET", "/v1/quotas", ``, 422, `"parameter":"policy"`},
		{"GET", "/v1/quotas?policy=nope", ``, 404, "unknown-policy"},
		{"GET", "/v1/quotas?policy=default&key=", ``, 422, `"parameter":"key"`},
		{"GET", "/v1/quotas?policy=default&limit=0", ``, 422, `"parameter":"limit"`},
		{"GET", "/v1/quotas?policy=default&limit=1001", ``, 422, `"parameter":"limit"`},
		{"GET", "/v1/quotas?policy=default&limit=abc", ``, 422, `"parameter":"limit"`},
		{"GET", "/v1/quotas?policy=default&cursor=%21", ``, 422, `"parameter":"cursor"`},
		{"POST", quota, ``, 405, ""},
	} {
		if a := s.do(t, c.method, c.target, c.body); a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.target, c.body, a.status, a.body, c.status, c.want)
		}
	}
	s.do(t, "GET", "/v1/quotas?policy=default", "").want(t, 200, `{"quotas":[]}`)
}

func TestQuotasArePaged(t *testing.T) {
	s := serve(t, withTokens)
	want := map[string]bool{}
	for i := range 25 {
		key := fmt.Sprintf("k%02d%%2F%%20%%C3%%A9", i)
		want[fmt.Sprintf("k%02d/ \u00e9", i)] = true
		if a := s.do(t, "PUT", "/v1/quotas?policy=default&key="+key, fmt.Sprintf(`{"limit":%d}`, i)); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	for _, size := range []int{1, 7, 25, 1000} {
		seen, cursor := map[string]bool{}, ""
		for {
			a := s.do(t, "GET", fmt.Sprintf("/v1/quotas?policy=default&limit=%d&cursor=%s", size, cursor), "")
			var page struct {
				Quotas []struct {
					Key   string
					Limit int64
				}
				Next string
			}
			decodeJSON(t, a.body, &page)
			for _, q := range page.Quotas {
				if seen[q.Key] || !want[q.Key] {
					t.Errorf("pages of %d show %q", size, q.Key)
				}
				seen[q.Key] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(seen) != 25 {
			t.Errorf("pages of %d show %d quotas", size, len(seen))
		}
	}
}

func TestAQuotaIsInForceInOtherProcessesWithinASecondAndAfterARestart(t *testing.T) {
	one := serve(t, withTokens)
	other := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.DSN = one.dsn })
	if got := fmt.Sprint(other.ping(t, "k").status, other.ping(t, "k").status, other.ping(t, "k").status, other.ping(t, "k").status); got != "200 200 200 429" {
		t.Fatalf("pings: %s", got)
	}
	one.do(t, "PUT", "/v1/quotas?policy=default&key=k", `{"limit":4}`)
	begun := time.Now()
	for other.do(t, "GET", "/v1/quotas?policy=default&key=k", "").status != 200 {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the other process never notices")
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("noticed after %s", time.Since(begun).Round(time.Millisecond))
	if a := other.ping(t, "k"); a.status != 200 {
		t.Errorf("the fourth: %d %s", a.status, a.body)
	}
	if a := one.ping(t, "k"); a.status != 429 {
		t.Errorf("the fifth: %d", a.status)
	}
	one.stop()
	other.stop()
	again := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.DSN = one.dsn })
	again.do(t, "GET", "/v1/quotas?policy=default&key=k", "").want(t, 200, `{"policy":"default","key":"k","limit":4}`)
	if a := again.ping(t, "k"); a.status != 429 || a.header.Get("X-RateLimit-Limit") != "4" {
		t.Errorf("after a restart: %d %v", a.status, a.header)
	}
}

// The log tells from where an administrator changed something, by the same rules by
// which clients are told apart, and nothing of who makes hits.
func TestTheLogTellsWhoChangedSomething(t *testing.T) {
	s := servePoliciesWith(t, burstAndDaily+"client_address: {trusted_proxies: [127.0.0.1]}\n", withTokens)
	from := func(method, target, body string) answer {
		return s.send(t, http.DefaultClient, method, target, body, append(bearer(adminToken), "X-Forwarded-For", "10.0.0.1, 2001:db8::1")...)
	}
	const k = "?policy=burst&key=k"
	from("PUT", "/v1/quotas"+k, `{"limit":5}`)
	from("POST", "/v1/hits", `{"key":"k","policies":["burst"]}`)
	from("DELETE", "/v1/counters"+k, "")
	from("DELETE", "/v1/counters?key=k", "")
	from("DELETE", "/v1/quotas"+k, "")
	s.do(t, "DELETE", "/v1/quotas"+k, "") // without a proxy's word
	var got []string
	for _, call := range callsOf(t, s, domain.CallQuery{Key: "k", Policy: "burst", OldestFirst: true, Limit: 100}) {
		got = append(got, fmt.Sprintf("%s %q", call.Kind, call.Actor))
	}
	want := []string{`quota_set "admin ip:2001:db8::/64"`, `hit ""`, `reset "admin ip:2001:db8::/64"`, `reset "admin ip:2001:db8::/64"`,
		`quota_unset "admin ip:2001:db8::/64"`, `quota_unset "admin ip:127.0.0.1"`}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// A reset of one policy whose name is misspelled must not become a reset of all.
func TestWhoMisspellsAParameterChangesAndSeesNothing(t *testing.T) {
	s := serve(t, withTokens)
	s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["default"]}`)
	before := s.do(t, "GET", "/v1/counters?key=k", "").body
	for _, request := range []string{
		"DELETE /v1/counters?key=k&polcy=other", "GET /v1/counters?key=k&polcy=other", "GET /status?key=k&polcy=other", "GET /v1/quotas?policy=default&kee=k",
		"PUT /v1/quotas?policy=default&key=k&kee=k", "DELETE /v1/quotas?policy=default&key=k&kee=k",
	} {
		method, target, _ := strings.Cut(request, " ")
		if a := s.do(t, method, target, `{"limit":5}`); a.status != 422 || !strings.Contains(a.body, "there is no such parameter here") {
			t.Errorf("%s: %d %s", request, a.status, a.body)
		}
	}
	if after := s.do(t, "GET", "/v1/counters?key=k", "").body; after != before || !strings.Contains(after, `"count":1`) {
		t.Errorf("counters %s, before %s", after, before)
	}
}
