package ratelimitlog_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog"
)

// from is a client with another loopback address than the one that others have.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return clientOf(transport)
}

const behindProxy = `policies: {default: {limit: 3, window: 1m}}
routes: [{path: /ping, key: client address, policies: [default]}]
client_address: {trusted_proxies: [127.0.0.1, 10.0.0.0/8]}
`

func TestNobodyChoosesTheirAddress(t *testing.T) { // cases 59, 61, 62, 65, 67, 110
	s := servePolicies(t, behindProxy)
	ping := func(client *http.Client, headers ...string) (status int, key string) {
		t.Helper()
		a := s.send(t, client, "GET", "/ping", "", headers...)
		for _, part := range strings.Split(a.body, `"`) {
			if strings.HasPrefix(part, "ip:") {
				return a.status, part
			}
			if _, after, found := strings.Cut(part, "for key '"); found {
				return a.status, strings.TrimSuffix(after, "'.")
			}
		}
		t.Fatalf("no key in %d %s", a.status, a.body)
		return 0, ""
	}
	proxy, stranger := http.DefaultClient, from(t, "127.0.0.2")
	for i := range 10 { // rotating the left-most entry does not help
		status, key := ping(proxy, "X-Forwarded-For", fmt.Sprintf("1.2.3.%d, 203.0.113.50", i), "X-Forwarded-For", "10.0.0.7")
		if want := map[bool]int{true: 200, false: 429}[i < 3]; status != want || key != "ip:203.0.113.50" {
			t.Errorf("hit %d: %d for %s", i+1, status, key)
		}
	}
	if a := s.request(t, "GET", "/status?key=ip:1.2.3.1"); !strings.Contains(a.body, `"count":0`) {
		t.Errorf("the address that was made up is charged: %s", a.body)
	}
	for i := range 4 { // from an untrusted peer nothing in it counts
		status, key := ping(stranger, "X-Forwarded-For", fmt.Sprintf("1.2.3.%d", i), "CF-Connecting-IP", "127.0.0.1", "Forwarded", "for=1.1.1.1")
		if want := map[bool]int{true: 200, false: 429}[i < 3]; status != want || key != "ip:127.0.0.2" {
			t.Errorf("stranger's hit %d: %d for %s", i+1, status, key)
		}
	}
	for _, c := range []struct{ addr, key string }{
		{"::ffff:192.0.2.1", "ip:192.0.2.1"}, {"::ffff:192.0.2.2", "ip:192.0.2.2"}, {"192.0.2.1:5001", "ip:192.0.2.1"},
		{"2001:db8::1", "ip:2001:db8::/64"}, {"2001:db8::2", "ip:2001:db8::/64"}, {"[2001:DB8::3]:443", "ip:2001:db8::/64"}, {"2001:db8:0:1::1", "ip:2001:db8:0:1::/64"},
	} {
		if status, key := ping(proxy, "X-Forwarded-For", c.addr); status != 200 || key != c.key {
			t.Errorf("%s: %d for %s, want %s", c.addr, status, key, c.key)
		}
	}
	if status, _ := ping(proxy, "X-Forwarded-For", "2001:db8::ffff"); status != 429 {
		t.Errorf("the fourth of one IPv6 prefix: %d", status)
	}
	if a := s.request(t, "GET", "/status?key=ip:192.0.2.1"); !strings.Contains(a.body, `"count":2`) {
		t.Errorf("two spellings of one address: %s", a.body)
	}
}

func TestARouteLimitsAllSpellingsOfItsPath(t *testing.T) { // cases 56, 92, 95
	s := servePolicies(t, `policies: {all: {limit: 3, window: 1m}, pings: {limit: 10, window: 1m}}
routes:
  - {path: "*", key: constant everybody, policies: [all]}
  - {path: /ping, key: constant pings, policies: [pings]}
`)
	for i := range 12 {
		if a := s.ping(t, "k"); a.status != map[bool]int{true: 200, false: 429}[i < 10] {
			t.Errorf("ping %d: %d", i+1, a.status)
		}
	}
	for i, request := range []string{"POST /nope", "GET /NOPE?x", "DELETE /v1/none"} {
		method, target, _ := strings.Cut(request, " ")
		a := s.request(t, method, target)
		if a.status != 404 || a.header.Get("X-RateLimit-Remaining") != fmt.Sprint(2-i) {
			t.Errorf("%s: %d, %v", request, a.status, a.header)
		}
	}
	for _, target := range []string{"/nope", "/v1/policies", "/status?key=k"} {
		a := s.request(t, "GET", target)
		if a.status != 429 || a.header.Get("Retry-After") != "50" || !strings.Contains(a.body, `"policy":"all"`) {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	for _, target := range []string{"/healthz", "/readyz"} { // whoever asks may end the process
		if a := s.request(t, "GET", target); a.status != 200 {
			t.Errorf("%s: %d", target, a.status)
		}
	}
}

func TestAMalformedHitCountsOnTheRouteAroundIt(t *testing.T) { // case 92
	s := servePolicies(t, `policies: {api: {limit: 2, window: 1m}, default: {limit: 9, window: 1m}}
routes: [{path: /v1/hits, methods: [POST], key: header X-Tenant, fallback: constant none, policies: [api]}]
`)
	for i, want := range []int{422, 200, 429} {
		body := []string{"{", `{"key":"k","policies":["default"]}`, `{"key":"k","policies":["default"]}`}[i]
		if a := s.post(t, "/v1/hits", body, "X-Tenant", "t"); a.status != want {
			t.Errorf("request %d: %d %s, want %d", i+1, a.status, a.body, want)
		}
	}
	if a := s.request(t, "GET", "/v1/counters?key=k&policy=default"); !strings.Contains(a.body, `"count":1,`) {
		t.Errorf("the refused request counted inside: %s", a.body)
	}
	if a := s.request(t, "GET", "/v1/counters?key=t&policy=api"); !strings.Contains(a.body, `"count":3,"refused":1`) {
		t.Errorf("the route counts %s", a.body)
	}
}

func TestARouteMayHaveSeveralPolicies(t *testing.T) { // case 46
	s := servePolicies(t, `policies: {minute: {limit: 2, window: 1m}, day: {limit: 50, window: 1d}}
routes: [{path: /ping, key: header X-Client-Key, policies: [minute, day]}]
`)
	for i, want := range []int{200, 200, 429} {
		if a := s.ping(t, "k"); a.status != want {
			t.Errorf("ping %d: %d %s", i+1, a.status, a.body)
		}
	}
	if a := s.request(t, "GET", "/v1/counters?key=k&policy=day"); !strings.Contains(a.body, `"count":2,"refused":0`) {
		t.Errorf("the day's counter is %s", a.body)
	}
}

func TestKeysOfABearerTokenAreHashed(t *testing.T) { // case 164
	s := servePolicies(t, `policies: {default: {limit: 1, window: 1m}}
routes: [{path: /ping, key: bearer, policies: [default]}]
`)
	const key = "bearer:b2817799acd7f3337c32f967a7c4ca32" // the head of sha256sum of sk_live_abc
	for i, want := range []int{200, 429} {
		if a := s.request(t, "GET", "/ping", "Authorization", "Bearer sk_live_abc"); a.status != want || !strings.Contains(a.body, key) {
			t.Errorf("hit %d: %d %s", i+1, a.status, a.body)
		}
	}
	if a := s.request(t, "GET", "/ping"); a.status != 200 || !strings.Contains(a.body, `"key":"127.0.0.1"`) {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
	s.stop()
	if strings.Contains(s.log.String(), "sk_live") {
		t.Errorf("the token is in the log: %s", s.log)
	}
}

func TestConnectionHeadersTakeNoKeyAway(t *testing.T) { // case 109
	s := serve(t, nil)
	a := s.raw(t, "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close, X-Client-Key\r\nX-Client-Key: k\r\n\r\n")
	if a.status != 200 || !strings.Contains(a.body, `"key":"k"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestPreflightsAreNeverCharged(t *testing.T) { // case 94
	for name, change := range map[string]func(*ratelimitlog.Config){
		"without CORS": nil,
		"with CORS": func(c *ratelimitlog.Config) {
			c.CORSOrigins = []string{"https://app.example.com", "http://localhost:3000"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, change)
			for range 4 {
				s.ping(t, "k")
			}
			for range 20 {
				a := s.request(t, "OPTIONS", "/ping", "Origin", "https://app.example.com", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "X-Client-Key", "X-Client-Key", "k")
				if a.status != 204 || a.body != "" {
					t.Fatalf("preflight: %d %s", a.status, a.body)
				}
				if change != nil {
					a.wantHeader(t, "Access-Control-Allow-Origin", "https://app.example.com")
					a.wantHeader(t, "Access-Control-Allow-Headers", "X-Client-Key")
				} else {
					a.wantHeader(t, "Access-Control-Allow-Origin")
				}
			}
			if a := s.request(t, "GET", "/status?key=k"); !strings.Contains(a.body, `"count":4,"refused":1`) {
				t.Errorf("preflights were counted: %s", a.body)
			}
			allowed, refused := s.request(t, "GET", "/ping", "Origin", "https://app.example.com"), s.request(t, "GET", "/ping", "X-Client-Key", "k", "Origin", "https://app.example.com")
			stranger := s.request(t, "GET", "/ping", "Origin", "https://evil.example")
			if allowed.status != 200 || refused.status != 429 || stranger.status != 200 {
				t.Errorf("%d, %d, %d", allowed.status, refused.status, stranger.status)
			}
			stranger.wantHeader(t, "Access-Control-Allow-Origin")
			for _, a := range []answer{allowed, refused} {
				if change == nil {
					a.wantHeader(t, "Access-Control-Allow-Origin")
					continue
				}
				a.wantHeader(t, "Access-Control-Allow-Origin", "https://app.example.com")
				a.wantHeader(t, "Vary", "Origin")
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
					if !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), name) {
						t.Errorf("%s is not exposed by %q", name, a.header.Get("Access-Control-Expose-Headers"))
					}
				}
			}
		})
	}
}

func TestOriginsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, origin := range []string{"app.example.com", "https://", "https://*.example.com", "https://a.example/", "ftp://a", "https://a b", "", "null", "https://a:443"} {
		_, _, err := ratelimitlog.NewServer(t.Context(), ratelimitlog.Config{DSN: "sqlite::memory:", CORSOrigins: []string{origin}})
		if err == nil || !strings.Contains(err.Error(), "cors-origins has") {
			t.Errorf("%q: %v", origin, err)
		}
	}
	s := serve(t, func(c *ratelimitlog.Config) { c.CORSOrigins = []string{"*"} })
	s.request(t, "GET", "/ping", "Origin", "https://any.example").wantHeader(t, "Access-Control-Allow-Origin", "*")
}
