package ratelimitlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestPingAllowsTheLimitAndThenAnswersAProblem(t *testing.T) {
	s := serve(t, nil)
	for i := 1; i <= 3; i++ {
		a := s.ping(t, "alice")
		a.want(t, 200, fmt.Sprintf(`{"message":"pong","key":"alice","policy":"default","limit":3,"count":%d,"remaining":%d,"reset_at":"2026-01-01T00:01:00Z"}`, i, 3-i))
		a.wantHeader(t, "Content-Type", "application/json")
		a.wantHeader(t, "Retry-After")
		a.wantHeader(t, "X-RateLimit-Remaining", fmt.Sprint(3-i))
		a.wantHeader(t, "RateLimit", fmt.Sprintf(`"default";r=%d;t=50`, 3-i))
	}
	for range 2 { // the store decides the first, the memory the second
		a := s.ping(t, "alice")
		a.want(t, 429, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/rate-limit-exceeded","title":"Too Many Requests","status":429,`+
			`"detail":"Rate limit of 3 requests per 60s exceeded for key 'alice'.","instance":"/ping","policy":"default","limit":3,`+
			`"window_seconds":60,"retry_after":50,"violated-policies":["default"]}`)
		for name, value := range map[string]string{
			"Content-Type": "application/problem+json", "Retry-After": "50", "Cache-Control": "no-store",
			"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225660",
			"RateLimit-Policy": `"default";q=3;w=60`, "RateLimit": `"default";r=0;t=50`, "X-Content-Type-Options": "nosniff",
		} {
			a.wantHeader(t, name, value)
		}
	}
	for range 2 { // a look changes nothing
		a := s.request(t, "GET", "/status?key=alice")
		a.want(t, 200, `{"key":"alice","policy":"default","limit":3,"count":5,"refused":2,"remaining":0,"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:01:00Z"}`)
		a.wantHeader(t, "Cache-Control", "no-store")
	}
	s.request(t, "GET", "/status?key=bob&policy=default").want(t, 200,
		`{"key":"bob","policy":"default","limit":3,"count":0,"refused":0,"remaining":3,"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:01:00Z"}`)
	s.clock.advance(50 * time.Second)
	if a := s.ping(t, "alice"); a.status != 200 {
		t.Errorf("after Retry-After: %d", a.status)
	}
}

func TestHeadersOfAllowedAndRefusedAnswersAreTheSame(t *testing.T) { // cases 101, 103, 104
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "1" })
	allowed, refused := s.ping(t, "k"), s.ping(t, "k")
	for name := range refused.header {
		if _, both := allowed.header[name]; !both && name != "Retry-After" {
			t.Errorf("%s is on the refusal only", name)
		}
	}
	for name := range allowed.header {
		if len(refused.header[name]) != 1 {
			t.Errorf("%s: %q on the refusal", name, refused.header[name])
		}
	}
}

// The fields are parsed with a library that is not ours.
func TestRateLimitFieldsAreStructuredFields(t *testing.T) { // case 100
	s := serve(t, nil)
	for range 5 {
		a := s.ping(t, "k")
		policy, err := httpsfv.UnmarshalList(a.header.Values("RateLimit-Policy"))
		if err != nil || len(policy) != 1 {
			t.Fatalf("RateLimit-Policy %q: %v", a.header.Values("RateLimit-Policy"), err)
		}
		left, err := httpsfv.UnmarshalList(a.header.Values("RateLimit"))
		if err != nil || len(left) != 1 {
			t.Fatalf("RateLimit %q: %v", a.header.Values("RateLimit"), err)
		}
		if policy[0].(httpsfv.Item).Value != "default" || left[0].(httpsfv.Item).Value != "default" {
			t.Errorf("policies %v and %v", policy[0], left[0])
		}
		for name, want := range map[string]int64{"q": 3, "w": 60} {
			if got, _ := policy[0].(httpsfv.Item).Params.Get(name); got != want {
				t.Errorf("%s = %v, want %d", name, got, want)
			}
		}
		if got, _ := left[0].(httpsfv.Item).Params.Get("t"); got != int64(50) {
			t.Errorf("t = %v, want 50", got)
		}
	}
}

func TestAHeadRequestCountsOnceAndHasNoBody(t *testing.T) { // case 88
	s := serve(t, nil)
	for i, status := range []int{200, 200, 200, 429} {
		a := s.request(t, "HEAD", "/ping", "X-Client-Key", "k")
		if a.status != status || a.body != "" || a.header.Get("X-RateLimit-Limit") != "3" {
			t.Errorf("HEAD %d: %d %q", i+1, a.status, a.body)
		}
	}
	a := s.request(t, "GET", "/status?key=k")
	if !strings.Contains(a.body, `"count":4,"refused":1`) {
		t.Errorf("status %s", a.body)
	}
}

func TestKeysAreOneToFiveHundredTwelveBytesOfText(t *testing.T) { // cases 50, 52, 53, 55, 145
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "1000" })
	invalid := func(parameter, reason string) string {
		return fmt.Sprintf(`"status":422,"detail":"%[1]s %[2]s","instance":%%q,"errors":[{"detail":"%[1]s %[2]s","parameter":"%[1]s"}]}`, parameter, reason)
	}
	for _, c := range []struct{ name, key, reason string }{
		{"zero", "0", ""}, {"longest", strings.Repeat("a", 512), ""}, {"emoji", "😀", ""}, {"SQL", "' OR 1=1--", ""},
		{"case", "ABC", ""}, {"lower case", "abc", ""}, {"NFC", "\u00e9", ""}, {"NFD", "e\u0301", ""}, {"markup", "<img src=x onerror=alert(1)>", ""},
		{"too long", strings.Repeat("a", 513), "is 513 bytes long, at most 512 are allowed"},
		{"8 KiB", strings.Repeat("a", 8192), "is 8192 bytes long, at most 512 are allowed"},
		{"invalid UTF-8", "a\xff", "is not valid UTF-8"},
		{"control", "a\x01b", "has the control character U+0001 at byte 1"},
		{"C1 control", "a\u0085", "has the control character U+0085 at byte 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Client-Key: "+c.key+"\r\n\r\n")
			query := s.request(t, "GET", "/status?key="+url.QueryEscape(c.key))
			if c.reason != "" {
				for _, both := range []struct {
					a                   answer
					parameter, instance string
				}{{header, "X-Client-Key", "/ping"}, {query, "key", "/status"}} {
					want := fmt.Sprintf(invalid(both.parameter, c.reason), both.instance)
					if both.a.status != 422 || !strings.HasSuffix(both.a.body, want) || both.a.header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("answer %d %s, want 422 …%s", both.a.status, both.a.body, want)
					}
				}
				return
			}
			var pong, status struct {
				Key   string
				Count int64
			}
			if err := json.Unmarshal([]byte(header.body), &pong); err != nil || header.status != 200 || pong.Key != c.key || pong.Count != 1 {
				t.Errorf("ping: %d %s %v", header.status, header.body, err)
			}
			if err := json.Unmarshal([]byte(query.body), &status); err != nil || query.status != 200 || status.Key != c.key || status.Count != 1 {
				t.Errorf("status: %d %s %v", query.status, query.body, err)
			}
		})
	}
	t.Run("NUL in the query", func(t *testing.T) {
		if a := s.request(t, "GET", "/status?key=a%00b"); a.status != 422 || !strings.Contains(a.body, "U+0000 at byte 1") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("blanks belong to a key where HTTP can carry them", func(t *testing.T) {
		if a := s.request(t, "GET", "/status?key=%20abc%20"); a.status != 200 || !strings.Contains(a.body, `"key":" abc ","policy":"default","limit":1000,"count":0`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestWithoutAKeyClientsShareTheAnonymousOne(t *testing.T) { // case 52, 109
	s := serve(t, nil)
	for i, header := range []string{"", "X-Client-Key:\r\n", "X-Client-Key:  \t \r\n", "X-Client-Key: 127.0.0.1\r\n", "Connection: X-Client-Key\r\nX-Client-Key:\r\n"} {
		a := s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\n"+header+"\r\n")
		want := 200
		if i >= 3 {
			want = 429
		}
		if a.status != want || want == 200 && !strings.Contains(a.body, fmt.Sprintf(`"key":"127.0.0.1","policy":"default","limit":3,"count":%d`, i+1)) {
			t.Errorf("%q: %d %s", header, a.status, a.body)
		}
	}
	if a := s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: \t k \t\r\n\r\n"); !strings.Contains(a.body, `"key":"k"`) {
		t.Errorf("blanks around a header's value are not part of it: %s", a.body)
	}
	a := s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: a\r\nX-Client-Key: b\r\n\r\n")
	a.want(t, 422, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/invalid-request","title":"Invalid Request","status":422,`+
		`"detail":"X-Client-Key must not be sent more than once","instance":"/ping","errors":[{"detail":"X-Client-Key must not be sent more than once","parameter":"X-Client-Key"}]}`)
}

func TestStatusNeedsAKeyAndAKnownPolicy(t *testing.T) {
	s := serve(t, nil)
	for target, want := range map[string]struct {
		status int
		body   string
	}{
		"/status":                   {422, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/invalid-request","title":"Invalid Request","status":422,"detail":"key must not be empty","instance":"/status","errors":[{"detail":"key must not be empty","parameter":"key"}]}`},
		"/status?key=":              {422, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/invalid-request","title":"Invalid Request","status":422,"detail":"key must not be empty","instance":"/status","errors":[{"detail":"key must not be empty","parameter":"key"}]}`},
		"/status?key=a&key=b":       {422, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/invalid-request","title":"Invalid Request","status":422,"detail":"the parameter must not be sent more than once","instance":"/status","errors":[{"detail":"the parameter must not be sent more than once","parameter":"key"}]}`},
		"/status?key=a&policy=nope": {404, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/unknown-policy","title":"Unknown Policy","status":404,"detail":"there is no policy named \"nope\"","instance":"/status"}`},
		"/status?key=a&policy=":     {404, `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/unknown-policy","title":"Unknown Policy","status":404,"detail":"there is no policy named \"\"","instance":"/status"}`},
	} {
		s.request(t, "GET", target).want(t, want.status, want.body)
	}
	if a := s.raw(t, "GET /status?key=%zz HTTP/1.1\r\nHost: x\r\n\r\n"); a.status != 422 || !strings.Contains(a.body, "the query is malformed") {
		t.Errorf("a bad escape: %d %s", a.status, a.body)
	}
}

func TestEveryErrorIsAProblem(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		name, request string
		status        int
		body          string
	}{
		{"unknown route", "GET /nope?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 404, `{"type":"about:blank","title":"Not Found","status":404,"detail":"There is nothing at this path.","instance":"/nope"}`},
		{"wrong method", "POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, `{"type":"about:blank","title":"Method Not Allowed","status":405,"detail":"The path does not take this method; Allow says which it takes.","instance":"/ping"}`},
		{"unknown method", "FOO /ping HTTP/1.1\r\nHost: x\r\n\r\n", 501, `{"type":"about:blank","title":"Not Implemented","status":501,"detail":"The method is not known.","instance":"/ping"}`},
		{"method in lower case", "get /ping HTTP/1.1\r\nHost: x\r\n\r\n", 501, ""},
		{"oversized header", "GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: " + strings.Repeat("a", 20000) + "\r\n\r\n", 431, `{"type":"about:blank","title":"Request Header Fields Too Large","status":431,"detail":"The header is larger than 16384 bytes."}`},
		{"oversized body", "GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("a", 70000), 413, ""},
		{"no HTTP", "hello\r\n\r\n", 400, ""},
		{"bad length", "GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.raw(t, c.request)
			var problem struct {
				Type, Title, Detail string
				Status              int
			}
			if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
				t.Fatalf("%d %q: %v", a.status, a.body, err)
			}
			if a.status != c.status || problem.Status != c.status || problem.Title != http.StatusText(c.status) || problem.Type == "" || problem.Detail == "" {
				t.Errorf("answer %d %s", a.status, a.body)
			}
			if c.body != "" && a.body != c.body {
				t.Errorf("body %s\nwant %s", a.body, c.body)
			}
			a.wantHeader(t, "Content-Type", "application/problem+json")
			a.wantHeader(t, "Cache-Control", "no-store")
			if len(a.header.Values("X-Request-Id")) != 1 {
				t.Errorf("request ids %q", a.header.Values("X-Request-Id"))
			}
		})
	}
	if a := s.request(t, "POST", "/ping"); a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", a.header.Get("Allow"))
	}
}

func TestNoSpellingOfAPathGetsAroundItsLimit(t *testing.T) { // case 56
	s := serve(t, nil)
	reached := 0
	for range 4 {
		for _, path := range []string{"/ping", "/PING", "/ping/", "//ping", "/ping?x=1", "/%70ing", "/./ping", "/ping/.", "/ping%2f", "/ping;x", "http://x/ping"} {
			switch a := s.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nX-Client-Key: k\r\n\r\n"); a.status {
			case 200:
				reached++
			case 404, 429:
			default:
				t.Errorf("%s: %d", path, a.status)
			}
		}
	}
	if reached != 3 {
		t.Errorf("the limited handler was reached %d times, want 3", reached)
	}
}

func TestARequestIDIsTakenOrMadeReturnedAndLogged(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "100" })
	made := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := map[string]bool{}
	for _, c := range []struct {
		sent string
		kept bool
	}{{"abc-123", true}, {strings.Repeat("x", 128), true}, {"", false}, {strings.Repeat("x", 129), false}, {"a b", false}, {"é", false}} {
		a := s.request(t, "GET", "/ping", "X-Client-Key", "ids", "X-Request-ID", c.sent)
		got := a.header.Get("X-Request-Id")
		if c.kept && got != c.sent || !c.kept && !made.MatchString(got) || seen[got] {
			t.Errorf("sent %q, returned %q", c.sent, got)
		}
		seen[got] = true
	}
	s.stop()
	history, cleanup, err := ratelimitlog.NewHistory(t.Context(), ratelimitlog.Config{DSN: s.dsn, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	calls, err := history.Calls(t.Context(), domain.CallQuery{Key: "ids", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != len(seen) {
		t.Errorf("%d calls are logged, want %d", len(calls), len(seen))
	}
	for _, call := range calls {
		if !seen[call.RequestID] || call.Method != "GET" || call.Path != "/ping" {
			t.Errorf("call %+v", call)
		}
	}
}

func TestClientsCannotSetTheClock(t *testing.T) { // case 166
	s := serve(t, nil)
	for _, header := range []string{"X-Now", "Date", "X-Request-Start"} {
		a := s.request(t, "GET", "/ping", "X-Client-Key", "k", header, "Fri, 01 Jan 2100 00:00:00 GMT")
		if !strings.Contains(a.body, `"reset_at":"2026-01-01T00:01:00Z"`) {
			t.Errorf("%s: %s", header, a.body)
		}
	}
}

// Fiber's strings live in buffers that it uses again: a key kept in one would
// change under our hands.
func TestFiftyKeysOverTwentyConnectionsStayFifty(t *testing.T) { // cases 43, 44
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "20"; c.Window = "1d" })
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = strings.Repeat(string(rune('a'+i%26)), 1+i*63/49) // 1 to 64 bytes, no two of one length
	}
	client := clientOf(&http.Transport{MaxConnsPerHost: 20, MaxIdleConnsPerHost: 20})
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for worker := range 20 {
		group.Go(func() {
			for i := range 100 {
				r, err := http.NewRequest("GET", s.url+"/ping", nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Client-Key", keys[(worker*100+i*7)%50])
				response, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	group.Wait()
	s.stop()
	got := count(t, s.dsn, `SELECT key, count FROM rate_limit_windows`)
	if len(got) != 50 {
		t.Errorf("%d keys are stored, want 50", len(got))
	}
	for _, key := range keys {
		if got[key] != 40 {
			t.Errorf("%q has count %d, want 40", key, got[key])
		}
	}
	logged := count(t, s.dsn, `SELECT key, sum(hits) FROM api_calls GROUP BY key`)
	for _, key := range keys {
		if logged[key] != 40 {
			t.Errorf("%q has %d hits in the log, want 40", key, logged[key])
		}
	}
}

func TestHealthAndReadiness(t *testing.T) {
	s := serve(t, nil)
	s.request(t, "GET", "/healthz").want(t, 200, `{"status":"ok"}`)
	s.request(t, "GET", "/readyz").want(t, 200, `{"status":"ready","revision":"`+s.revision(t)+`"}`)
	mustExec(t, s.dsn, `DROP TABLE goose_db_version`)
	a := s.request(t, "GET", "/readyz")
	a.want(t, 503, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"The rate limit could not be checked.","instance":"/readyz"}`)
	a.wantHeader(t, "Retry-After", "1")
	s.request(t, "GET", "/healthz").want(t, 200, `{"status":"ok"}`)
}

func TestAStoreThatFailsIsA503ThatSaysNothingOfTheCause(t *testing.T) {
	s := serve(t, nil)
	s.ping(t, "k")
	mustExec(t, s.dsn, `ALTER TABLE api_calls RENAME TO elsewhere`)
	a := s.ping(t, "k")
	a.want(t, 503, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"The rate limit could not be checked.","instance":"/ping"}`)
	a.wantHeader(t, "Retry-After", "1")
	if !strings.Contains(s.log.String(), "no such table") || !strings.Contains(s.log.String(), a.header.Get("X-Request-Id")) {
		t.Errorf("the log does not tell the cause with the request's id: %s", s.log)
	}
	mustExec(t, s.dsn, `ALTER TABLE elsewhere RENAME TO api_calls`)
	s.request(t, "GET", "/status?key=k").want(t, 200,
		`{"key":"k","policy":"default","limit":3,"count":1,"refused":0,"remaining":2,"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:01:00Z"}`)
}

func TestUnlimitedIsWrittenAsAWord(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "unlimited" })
	a := s.ping(t, "k")
	a.want(t, 200, `{"message":"pong","key":"k","policy":"default","limit":"unlimited","count":1,"remaining":"unlimited","reset_at":"2026-01-01T00:01:00Z"}`)
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit", "RateLimit-Policy"} {
		a.wantHeader(t, name)
	}
}

func TestALimitOfZeroBlocks(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "0" })
	a := s.ping(t, "k")
	if a.status != 429 || a.header.Get("X-RateLimit-Limit") != "0" || a.header.Get("RateLimit") != `"default";r=0;t=50` {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestConfigurationsThatMakeNoSenseDoNotStart(t *testing.T) { // cases 10, 37
	for name, config := range map[string]ratelimitlog.Config{
		"negative limit": {Limit: "-1"}, "fractional limit": {Limit: "1.5"}, "limit in words": {Limit: "many"},
		"window 0": {Window: "0s"}, "window below a second": {Window: "500ms"}, "negative window": {Window: "-1m"},
		"log level": {LogLevel: "loud"}, "log format": {LogFormat: "xml"}, "DSN": {DSN: "oracle://x"}, "synchronous": {Synchronous: "off", DSN: "sqlite::memory:"},
	} {
		if config.DSN == "" {
			config.DSN = "sqlite:" + t.TempDir() + "/never.db"
		}
		if _, cleanup, err := ratelimitlog.NewServer(t.Context(), config); err == nil {
			cleanup()
			t.Errorf("%s: it started", name)
		}
	}
}

func TestStoppingAnswersWhatIsUnderWayAndKeepsIt(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.Limit = "unlimited" })
	var mu sync.Mutex
	answered := map[string]int64{}
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			client := clientOf(&http.Transport{})
			defer client.CloseIdleConnections()
			key := fmt.Sprint(worker % 4)
			for {
				r, _ := http.NewRequest("GET", s.url+"/ping", nil)
				r.Header.Set("X-Client-Key", key)
				response, err := client.Do(r)
				if err != nil {
					return // the server is gone
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != 200 {
					t.Errorf("status %d", response.StatusCode)
				}
				mu.Lock()
				answered[key]++
				mu.Unlock()
			}
		})
	}
	for { // under load
		mu.Lock()
		n := answered["0"]
		mu.Unlock()
		if n > 200 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.stop()
	group.Wait()
	stored := count(t, s.dsn, `SELECT key, count - refused FROM rate_limit_windows`)
	logged := count(t, s.dsn, `SELECT key, sum(hits) FROM api_calls WHERE allowed GROUP BY key`)
	for key, n := range answered {
		if stored[key] != n || logged[key] != n {
			t.Errorf("key %s: %d answered, %d stored, %d logged", key, n, stored[key], logged[key])
		}
	}
}

func TestRunFailsWhereItCannotListen(t *testing.T) {
	server, cleanup, err := ratelimitlog.NewServer(t.Context(), ratelimitlog.Config{DSN: "sqlite::memory:", LogTo: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := server.Run(context.Background(), listener); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("run on a closed listener: %v", err)
	}
}

func TestAClientThatSaysNothingDoesNotHoldUpTheEnd(t *testing.T) {
	s := serve(t, nil)
	for range 3 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if a := s.ping(t, "k"); a.status != 200 { // the connections before have been taken
		t.Errorf("%d", a.status)
	}
	begun := time.Now()
	s.stop() // fails the test if requests are said to be under way
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the server took %s to stop", took)
	}
}

func TestARequestThatEndsInTwoPlacesIsRefusedAndTheConnectionEnds(t *testing.T) {
	s := serve(t, nil)
	const body = `{"key":"k","policies":["default"]}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for _, c := range []struct {
		header, body string
		statuses     string // of the request and of one behind it
	}{
		{length, body, "200 200"},
		{"Transfer-Encoding: chunked\r\n", chunked, "200 200"},
		{"transfer-encoding:  Chunked \r\n", chunked, "200 200"},
		{"Content-Length: 3\r\n" + length, body, "400"},
		{length + length, body, "400"},
		{length + "X: y\r\ncontent-LENGTH: 0\r\n", body, "400"},
		{length + "Transfer-Encoding: chunked\r\n", chunked, "400"},
		{"Transfer-Encoding: chunked\r\n" + length, chunked, "400"},
		{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked, "400"},
		{"Transfer-Encoding: gzip, chunked\r\n", chunked, "400"},
		{"Transfer-Encoding: chunked, identity\r\n", chunked, "400"},
	} {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "POST /v1/hits HTTP/1.1\r\nHost: x\r\n%s\r\n%sGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", c.header, c.body)
		answers, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("%q: %v", c.header, err)
		}
		var statuses []string
		for _, found := range regexp.MustCompile(`HTTP/1.1 (\d+)`).FindAllSubmatch(answers, -1) {
			statuses = append(statuses, string(found[1]))
		}
		if got := strings.Join(statuses, " "); got != c.statuses {
			t.Errorf("%q: %s, want %s", c.header, got, c.statuses)
		}
	}
	if a := s.request(t, "GET", "/status?key=k"); !strings.Contains(a.body, `"count":3,`) {
		t.Errorf("what was refused was counted: %s", a.body)
	}
}
