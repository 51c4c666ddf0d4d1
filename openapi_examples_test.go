package ratelimitlog_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

const examplePolicies = `policies:
  default: {limit: 3, window: 1m}
  burst: {limit: 2, window: 1s}
  daily: {limit: 1000, window: calendar day Europe/Berlin}
  tight: {limit: 1, window: sliding 10s, shadow: true}
routes:
  - {path: /ping, methods: [GET, HEAD], key: header X-Client-Key, policies: [default]}
`

// exampleRequests are requests of a new server, one after the other: the name of the
// example that the answer is, or -, whose token is sent, or -, method, target, and maybe
// a body. Alice pings, Bob hits, Carol has a quota.
var exampleRequests = strings.Split(strings.TrimSpace(`
allowed          -     GET /ping
-                -     GET /ping
-                -     GET /ping
refused          -     GET /ping
looked           -     GET /status?key=alice&policy=default
two-policies     -     POST /v1/hits {"key":"bob","policies":["burst","daily"],"cost":1}
in-shadow        -     POST /v1/hits {"key":"bob","policies":["burst","tight"]}
burst-refuses    -     POST /v1/hits {"key":"bob","policies":["burst","daily"],"cost":1}
cost-too-large   -     POST /v1/hits {"key":"bob","policies":["daily"],"cost":1001}
key-missing      -     GET /status
unknown-policy   -     GET /v1/counters?key=alice&policy=nope
counters         -     GET /v1/counters?key=alice&policy=default
policies         -     GET /v1/policies
more             admin PUT /v1/quotas?policy=default&key=carol {"limit":5000}
without-limit    admin PUT /v1/quotas?policy=default&key=dave {"limit":"unlimited"}
of-a-key         admin GET /v1/quotas?policy=default&key=carol
of-a-policy      admin GET /v1/quotas?policy=default&limit=1
no-quota         admin GET /v1/quotas?policy=default&key=alice
page             audit GET /v1/calls?key=alice&policy=default&path=/ping&limit=2
lines            audit GET /v1/calls?key=alice&limit=2 application/x-ndjson
table            audit GET /v1/calls?key=alice&limit=2 text/csv
no-such-form     audit GET /v1/calls text/html
hit              audit GET /v1/calls/5
policy-set       audit GET /v1/calls/1
unknown-call     audit GET /v1/calls/1000
by-policy        audit GET /v1/usage?by=policy
by-day           audit GET /v1/usage?by=day&zone=Asia/Tokyo&policy=default&key=alice
refusal          audit GET /v1/explain?key=alice&policy=default&at=2026-01-01T00:00Z
alive            -     GET /healthz
ready            -     GET /readyz
no-token         -     GET /v1/calls
other-token      audit GET /v1/quotas?policy=default
nothing-there    -     GET /nope
wrong-method     -     POST /ping
unknown-method   -     BREW /ping
`), "\n")

// Every example in the description is what a server answers.
func TestExamplesAreWhatAServerAnswers(t *testing.T) {
	spec, err := openapitest.Load(httpapi.Description)
	if err != nil {
		t.Fatal(err)
	}
	s := servePoliciesWith(t, examplePolicies, func(c *ratelimitlog.Config) { c.AdminToken, c.AuditToken = adminToken, auditToken })
	actor := s.rulesInLog(t)[0].Actor
	missing := spec.Examples()
	for i, line := range exampleRequests {
		fields := strings.Fields(line)
		name, token, method, target := fields[0], fields[1], fields[2], fields[3]
		headers, body := []string{"X-Client-Key", "alice", "X-Request-ID", "request-" + strconv.Itoa(i+1)}, ""
		switch token {
		case "admin":
			headers = append(headers, bearer(adminToken)...)
		case "audit":
			headers = append(headers, bearer(auditToken)...)
		}
		if len(fields) > 4 && method == "GET" {
			headers = append(headers, "Accept", fields[4])
		} else if len(fields) > 4 {
			body = fields[4]
		}
		a := s.send(t, http.DefaultClient, method, target, body, headers...)
		if name == "-" {
			continue
		}
		at, err := url.Parse(s.url + target)
		if err != nil {
			t.Fatal(err)
		}
		sent := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			sent.Set(headers[i], headers[i+1])
		}
		held, err := spec.CheckExamples(name, &openapitest.Exchange{
			Method: method, URL: at, Header: sent, Sent: []byte(body), Status: a.status, ResponseHeader: a.header, Whole: true,
			Body: []byte(strings.ReplaceAll(a.body, actor, "serve gateway:4711")), // the server's name for itself is another in each run
		})
		if err != nil {
			t.Errorf("%s: %d: %v", name, a.status, err)
		}
		missing = slices.DeleteFunc(missing, func(at string) bool { return slices.Contains(held, at) })
	}
	for _, at := range missing {
		t.Errorf("nobody knows whether the example at %s is true", at)
	}
}
