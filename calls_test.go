package ratelimitlog_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

// loggedCall is a call as /v1/calls tells it.
type loggedCall struct {
	ID                               int64
	CalledAt                         string `json:"called_at"`
	Kind, Policy, Key                string
	Cost, Hits                       int64
	Allowed, Shadow                  bool
	Count, Refused                   int64
	Limit                            any
	WindowStart                      string `json:"window_start"`
	Schedule, Coverage, Method, Path string
	RequestID                        string `json:"request_id"`
	Actor                            string
}

func withAudit(c *ratelimitlog.Config) {
	c.AuditToken, c.Limit, c.Window = auditToken, "unlimited", "1d"
}

// callPage reads a page of calls.
func (s *service) callPage(t testing.TB, query string) (calls []loggedCall, next string) {
	t.Helper()
	a := s.request(t, "GET", "/v1/calls?"+query, bearer(auditToken)...)
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%s: %d %v %.300s", query, a.status, a.header, a.body)
	}
	var page struct {
		Calls []loggedCall
		Next  *string
	}
	decodeJSON(t, a.body, &page)
	if page.Next == nil {
		return page.Calls, ""
	}
	if *page.Next == "" || len(page.Calls) == 0 {
		t.Errorf("%s: next is %q after %d calls", query, *page.Next, len(page.Calls))
	}
	return page.Calls, *page.Next
}

// allCalls reads pages until the last one.
func (s *service) allCalls(t testing.TB, query string, size int) (calls []loggedCall) {
	t.Helper()
	for cursor := ""; ; {
		page, next := s.callPage(t, fmt.Sprintf("%s&limit=%d%s", query, size, cursor))
		if len(page) > size || next != "" && len(page) < size {
			t.Fatalf("%s: a page of %d, next %q", query, len(page), next)
		}
		calls = append(calls, page...)
		if next == "" {
			return calls
		}
		cursor = "&cursor=" + next
	}
}

// Calls of one instant are told apart by their IDs, and no page loses or repeats one
// while others are added.
func TestPagesOfOneInstantLoseAndRepeatNothing(t *testing.T) { // cases 154, 158
	const there = 250
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); withAudit(c) })
		rules := len(s.rulesInLog(t)) // logged in the same instant
		for range there {
			if a := s.ping(t, "k"); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		want := map[string][]int64{} // by filter
		for filter, n := range map[string]int{"key=k": there, "": there + rules} {
			for _, call := range s.allCalls(t, filter+"&order=asc", 1000) {
				want[filter] = append(want[filter], call.ID)
			}
			if ids := want[filter]; len(ids) != n || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != n {
				t.Fatalf("%q: %d calls are there, want %d: %v", filter, len(ids), n, ids)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		defer clients.Wait()
		defer cancel()
		for i := range 10 {
			clients.Go(func() {
				client := clientOf(&http.Transport{MaxConnsPerHost: 1})
				defer client.CloseIdleConnections()
				for ctx.Err() == nil {
					s.send(t, client, "GET", "/ping", "", "X-Client-Key", fmt.Sprint("other", i))
				}
			})
		}
		for _, size := range []int{1, 7, 100} {
			filter := map[bool]string{true: "key=k", false: ""}[size == 1] // else it has to pass by all that comes, call by call
			want := want[filter]
			last := want[len(want)-1]
			for _, order := range []string{"asc", "desc"} {
				var got []int64
				for cursor, end := "", false; !end; {
					page, next := s.callPage(t, fmt.Sprintf("%s&order=%s&limit=%d%s", filter, order, size, cursor))
					for _, call := range page {
						if call.ID <= last {
							got = append(got, call.ID)
						}
					}
					end = next == "" || order == "asc" && page[len(page)-1].ID > last
					cursor = "&cursor=" + next
				}
				if order == "desc" {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d, %s, show %d calls of %d: %v", size, order, len(got), len(want), got)
				}
			}
		}
	})
}

func TestAFullLastPageHasNoNext(t *testing.T) {
	s := serve(t, withAudit)
	if calls, next := s.callPage(t, "limit=1&kind=hit"); len(calls) != 0 || next != "" {
		t.Errorf("a log without hits: %v, %q", calls, next)
	}
	rules := len(s.rulesInLog(t))
	for range 10 - rules {
		s.ping(t, "k")
	}
	for _, size := range []int{5, 10, 1000} {
		if got := s.allCalls(t, "", size); len(got) != 10 {
			t.Errorf("pages of %d show %d calls", size, len(got))
		}
	}
}

func TestTheLogHasTheOrderAndTheTimesOfTheRequests(t *testing.T) { // case 155
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); withAudit(c) })
		var want []string
		for i := range 100 {
			s.clock.advance(1500 * time.Microsecond)
			want = append(want, fmt.Sprint(i, " ", s.clock.now().UTC().Format("2006-01-02T15:04:05.000Z")))
			s.request(t, "GET", "/ping", "X-Client-Key", "k", "X-Request-ID", fmt.Sprint(i))
		}
		var got []string
		for _, line := range strings.Split(s.request(t, "GET", "/v1/calls?key=k&order=asc", append(bearer(auditToken), "Accept", "application/x-ndjson")...).body, "\n") {
			if line == "" {
				continue
			}
			var call loggedCall
			decodeJSON(t, line, &call)
			got = append(got, call.RequestID+" "+call.CalledAt)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the log has %v\nwant %v", got, want)
		}
	})
}

// What was answered before is in the log, also refusals from memory, on every engine.
func TestTheLogHasWhatWasAnsweredBefore(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); c.AuditToken, c.Limit = auditToken, "2" })
		for n := range 50 {
			s.ping(t, "k")
			hits := int64(0)
			for _, call := range s.allCalls(t, "key=k", 1000) {
				hits += call.Hits
			}
			if hits != int64(n+1) {
				t.Fatalf("after %d hits the log has %d", n+1, hits)
			}
		}
	})
}

// No character means anything to a filter.
func TestAFilterMatchesOnlyWhatItSays(t *testing.T) { // cases 145, 160
	keys := []string{
		"user_1", "userA1", "a*", "ab", "50%", "500", "user1", "user10", "' OR 1=1--", `"`, `\`, "[a-z]", "?", "a?", "\u00e9", "e\u0301", "K", "k", " k", "k ", "#", "&key=k", "<b>", "😀", "0", "NULL",
	}
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); withAudit(c) })
		for i, key := range keys {
			s.post(t, "/v1/hits", fmt.Sprintf(`{"key":%q,"policies":["default"]}`, key), "X-Request-ID", fmt.Sprintf("r%c%d", `%_*'"\?[`[i%8], i))
			s.ping(t, "path")
		}
		for i, key := range keys {
			if got := s.allCalls(t, "key="+url.QueryEscape(key), 1000); len(got) != 1 || got[0].Key != key {
				t.Errorf("key %q shows %+v", key, got)
			}
			if got := s.allCalls(t, "request_id="+url.QueryEscape(fmt.Sprintf("r%c%d", `%_*'"\?[`[i%8], i)), 1000); len(got) != 1 || got[0].Key != key {
				t.Errorf("the request of %q shows %+v", key, got)
			}
		}
		for filter, want := range map[string]int{
			"path=/v1/hits": len(keys), "path=/V1/hits": 0, "path=/v1/%25": 0, "path=/v1/*": 0, "path=/v1/hit_": 0, "path=%2Fv1%2Fhits&key=k": 1,
			"policy=default": 2 * len(keys), "policy=defaul_": 0, "policy=DEFAULT": 0, "request_id=r%25": 0, "request_id=%25": 0, "key=%25": 0, "key=_": 0, "key=*": 0,
		} {
			a := s.request(t, "GET", "/v1/calls?limit=1000&kind=hit&"+filter, bearer(auditToken)...)
			if got := strings.Count(a.body, `"id":`); a.status != 200 || got != want {
				if a.status == 422 && strings.HasPrefix(filter, "policy=") && strings.Contains(a.body, `"parameter":"policy"`) {
					continue // no policy can have that name
				}
				t.Errorf("%s shows %d calls, want %d: %d %.200s", filter, got, want, a.status, a.body)
			}
		}
	})
}

func TestTheKeyFilterTakesTheKeysThatStatusTakes(t *testing.T) { // case 145
	s := serve(t, withAudit)
	for _, key := range []string{
		"a", "0", " ", " a ", "a/b", "a@b", "a:b", "\u00e9", "e\u0301", "😀", "\u2028", "' OR 1=1--", "<img>", strings.Repeat("a", 255), strings.Repeat("a", 512),
		strings.Repeat("a", 513), "", "a\x00", "a\n", "\x7f", "a\u0085", "a\xff", "\xc0\x80", strings.Repeat("\u00e9", 257),
	} {
		at := "?key=" + url.QueryEscape(key)
		status, calls := s.request(t, "GET", "/status"+at), s.request(t, "GET", "/v1/calls"+at, bearer(auditToken)...)
		if strings.Replace(status.body, "/status", "/v1/calls", 1) != calls.body && status.status != 200 || status.status != calls.status {
			t.Errorf("%q: %d %s, but calls %d %s", key, status.status, status.body, calls.status, calls.body)
		}
	}
}

func TestTimesAreBoundsOfTheRequest(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); withAudit(c) }) // at 00:00:10
		for range 3 {
			s.ping(t, "k")
			s.clock.advance(time.Millisecond)
		}
		for filter, want := range map[string]int{
			"from=2026-01-01T00:00:10Z": 3, "from=2026-01-01T00:00:10.001Z": 2, "from=2026-01-01T09:00:10.001%2B09:00": 2, "from=2026-01-01T00:00:10.0011Z": 1, "from=2026-01-01T00:00:10.003Z": 0,
			"to=2026-01-01T00:00:10Z": 0, "to=2026-01-01T00:00:10.000001Z": 1, "to=2026-01-01T00:00:10.002Z": 2, "to=9998-12-31T23:59:59Z": 3, "from=1970-01-01T00:00:00Z": 3,
			"from=2026-01-01T00:00:10.001Z&to=2026-01-01T00:00:10.002Z": 1, "from=2026-01-01T00:00:10.001Z&to=2026-01-01T00:00:10.002Z&allowed=false": 0,
		} {
			if got := s.allCalls(t, "key=k&"+filter, 2); len(got) != want {
				t.Errorf("%s shows %d calls, want %d", filter, len(got), want)
			}
		}
	})
}

func TestCallsThatMakeNoSenseAreRefusedByParameter(t *testing.T) { // case 158
	s := serve(t, withAudit)
	for range 5 {
		s.ping(t, "k")
	}
	_, descending := s.callPage(t, "limit=1")
	_, ascending := s.callPage(t, "limit=1&order=asc")
	for query, parameter := range map[string]string{
		"limit=0": "limit", "limit=-1": "limit", "limit=1001": "limit", "limit=1000000": "limit", "limit=abc": "limit", "limit=1.5": "limit", "limit=": "limit", "limit=1&limit=1": "limit", "limit=99999999999999999999": "limit",
		"offset=-1": "offset", "Key=k": "Key", "key=": "key", "key=a&key=b": "key", "key=%00": "key", "policy=a%20b": "policy", "policy=": "policy", "allowed=yes": "allowed", "allowed=": "allowed", "allowed=1": "allowed",
		"from=2026-01-01": "from", "from=2026-01-01T00:00:00": "from", "from=2026-01-01T00:00:00+09:00": "from", "from=1h": "from", "from=": "from", "to=2026-02-30T00:00:00Z": "to", "to=0000-01-01T00:00:00Z": "to", "to=0001-01-01T00:00:00Z": "to", "from=1969-12-31T23:59:59.999Z": "from", "to=9999-01-01T00:00:00Z": "to",
		"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z": "to", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "to", "path=%ff": "path", "request_id=%00": "request_id", "kind=hits": "kind", "kind=hit,": "kind", "kind=": "kind",
		"order=up": "order", "order=ASC": "order", "cursor=": "cursor", "cursor=!": "cursor", "cursor=ZA": "cursor", "cursor=ZDA": "cursor", "cursor=ZC0x": "cursor", "cursor=ZDc%0A": "cursor", "cursor=" + ascending: "cursor",
		"order=asc&cursor=" + descending: "cursor", "cursor=" + descending + "A": "cursor", "cursor=" + descending + "%3D": "cursor", "cursor=" + descending + "&cursor=" + descending: "cursor",
	} {
		a := s.request(t, "GET", "/v1/calls?"+query, bearer(auditToken)...)
		if a.status != 422 || !strings.Contains(a.body, `"parameter":"`+parameter+`"`) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
		if strings.HasPrefix(query, "limit=1&") || strings.HasPrefix(query, "limit=1001") || strings.HasPrefix(query, "limit=1000000") {
			continue
		}
		for _, accept := range []string{"text/csv", "application/x-ndjson"} {
			if a := s.request(t, "GET", "/v1/calls?"+query, append(bearer(auditToken), "Accept", accept)...); a.status != 422 || !strings.Contains(a.body, `"parameter":"`+parameter+`"`) {
				t.Errorf("%s as %s: %d %.300s", query, accept, a.status, a.body)
			}
		}
	}
	if a := s.request(t, "GET", "/v1/calls?key=%zz", bearer(auditToken)...); a.status != 422 {
		t.Errorf("a bad escape: %d %s", a.status, a.body)
	}
}

func TestACallHasAnAddress(t *testing.T) {
	s := serve(t, withAudit)
	s.rulesInLog(t)
	s.request(t, "GET", "/ping", "X-Client-Key", "k", "X-Request-ID", "r")
	page, _ := s.callPage(t, "")
	id := page[0].ID
	a := s.request(t, "GET", fmt.Sprint("/v1/calls/", id), bearer(auditToken)...)
	a.want(t, 200, fmt.Sprintf(`{"id":%d,"called_at":"2026-01-01T00:00:10.000Z","kind":"hit","policy":"default","key":"k","cost":1,"hits":1,"allowed":true,"count":1,"refused":0,`+
		`"limit":"unlimited","window_start":"2026-01-01T00:00:00Z","schedule":"fixed 1d","method":"GET","path":"/ping","request_id":"r"}`, id))
	a.wantHeader(t, "Cache-Control", "no-store")
	for path, status := range map[string]int{
		"999": 404, "9223372036854775807": 404, "9223372036854775808": 422, "0": 422, "-1": 422, "+1": 422, "01": 422, "1.0": 422, "x": 422, "%31": 422, "1?x=1": 422, "1/": 404, "": 404, "1/2": 404,
	} {
		a := s.request(t, "GET", "/v1/calls/"+path, bearer(auditToken)...)
		if a.status != status || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("/v1/calls/%s: %d %s, want %d", path, a.status, a.body, status)
		}
	}
	if a := s.request(t, "GET", "/v1/calls/999", bearer(auditToken)...); !strings.Contains(a.body, "/problems/unknown-call") {
		t.Errorf("no such call: %s", a.body)
	}
}

func TestTheLogIsForAuditors(t *testing.T) {
	closed, open := serve(t, nil), serve(t, withTokens)
	for _, target := range []string{"/v1/calls", "/v1/calls/1"} {
		for _, accept := range []string{"application/json", "text/csv"} {
			with := func(headers ...string) []string { return append(headers, "Accept", accept) }
			if a := closed.request(t, "GET", target, with(bearer(auditToken)...)...); a.status != 403 {
				t.Errorf("%s without a token in the server: %d %s", target, a.status, a.body)
			}
			for token, status := range map[string]int{clientToken: 403, "wr0ng": 401} {
				if a := open.request(t, "GET", target, with(bearer(token)...)...); a.status != status {
					t.Errorf("%s with %s: %d %s", target, token, a.status, a.body)
				}
			}
			if a := open.request(t, "GET", target, with()...); a.status != 401 {
				t.Errorf("%s with no token: %d", target, a.status)
			}
			for _, token := range []string{auditToken, adminToken} {
				if a := open.request(t, "GET", target, with(bearer(token)...)...); a.status != 200 && !(a.status == 404 && target == "/v1/calls/1") {
					t.Errorf("%s with %s: %d %s", target, token, a.status, a.body)
				}
			}
		}
	}
}

func TestHostileTextIsEscaped(t *testing.T) { // case 161
	s := serve(t, withAudit)
	const key = `<img src=x onerror=alert(1)>`
	s.post(t, "/v1/hits", `{"key":"<img src=x onerror=alert(1)>","policies":["default"]}`, "X-Request-ID", `"><script>`)
	s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: =HYPERLINK(\"x\")\r\n\r\n")
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		a := s.request(t, "GET", "/v1/calls", append(bearer(auditToken), "Accept", accept)...)
		if strings.ContainsAny(a.body, "<>&") || !strings.Contains(a.body, `\u003cimg src=x onerror=alert(1)\u003e`) || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v %s", accept, a.header, a.body)
		}
	}
	a := s.request(t, "GET", "/v1/calls", append(bearer(auditToken), "Accept", "text/csv")...)
	if !strings.Contains(a.body, `,"'=HYPERLINK(""x"")",`) || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Disposition") != `attachment; filename="calls.csv"` {
		t.Errorf("CSV: %v %s", a.header, a.body)
	}
	if got := s.allCalls(t, "key="+url.QueryEscape(key), 10); len(got) != 1 || got[0].Key != key {
		t.Errorf("it reads back as %+v", got)
	}
}

func TestALogThatCannotBeReadIsA503(t *testing.T) {
	s := serve(t, withAudit)
	s.ping(t, "k")
	mustExec(t, s.dsn, `ALTER TABLE api_calls RENAME TO elsewhere`)
	for _, accept := range []string{"application/json", "application/x-ndjson", "text/csv"} {
		a := s.request(t, "GET", "/v1/calls", append(bearer(auditToken), "Accept", accept)...)
		if a.status != 503 || !strings.Contains(a.body, "The audit log could not be read.") || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", accept, a.status, a.body)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "no such table") {
		t.Errorf("log: %s", log)
	}
	mustExec(t, s.dsn, `ALTER TABLE elsewhere RENAME TO api_calls`)
	for range 10 { // no place was lost
		if a := s.request(t, "GET", "/v1/calls", append(bearer(auditToken), "Accept", "text/csv")...); a.status != 200 {
			t.Errorf("when it is back: %d %s", a.status, a.body)
		}
	}
}

func TestHeadOfCallsHasNoBody(t *testing.T) {
	s := serve(t, withAudit)
	s.ping(t, "k")
	client := clientOf(&http.Transport{MaxConnsPerHost: 1}) // so that a stray byte would spoil the next answer
	defer client.CloseIdleConnections()
	for range 6 {
		for _, accept := range []string{"application/json", "application/x-ndjson", "text/csv"} {
			headers := append(bearer(auditToken), "Accept", accept)
			head, get := s.send(t, client, "HEAD", "/v1/calls", "", headers...), s.send(t, client, "GET", "/v1/calls", "", headers...)
			if head.status != 200 || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("Content-Disposition") != get.header.Get("Content-Disposition") || get.body == "" {
				t.Errorf("%s: %+v and %+v", accept, head, get)
			}
		}
	}
}
