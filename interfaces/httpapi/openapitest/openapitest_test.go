package openapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

const (
	pong    = `{"message":"pong","key":"k","policy":"default","limit":3,"count":1,"remaining":2,"reset_at":"2026-01-01T00:01:00Z"}`
	refused = `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/rate-limit-exceeded","title":"Too Many Requests","status":429,` +
		`"detail":"d","instance":"/ping","policy":"default","limit":3,"window_seconds":60,"retry_after":50,"violated-policies":["default"]}`
	line = `{"id":1,"called_at":"2026-01-01T00:00:10.000Z","kind":"hit","policy":"p","key":"k","cost":1,"hits":1,"allowed":true,"count":1,"refused":0,` +
		`"limit":3,"window_start":"2026-01-01T00:00:00Z","schedule":"fixed 1m","method":"GET","path":"/ping","request_id":"r"}` + "\n"
)

// exchange makes one: what was asked, with a header of name, value, name, value, and
// what was answered.
func exchange(t *testing.T, method, target, sent string, status int, contentType, body string, header ...string) *openapitest.Exchange {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	e := &openapitest.Exchange{
		Method: method, URL: at, Header: http.Header{}, Sent: []byte(sent), Status: status, Body: []byte(body), Whole: true,
		ResponseHeader: http.Header{"X-Request-Id": {"r"}, "X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"no-store"}},
	}
	if contentType != "" {
		e.ResponseHeader.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		e.ResponseHeader.Set(header[i], header[i+1])
	}
	return e
}

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

func refusedHeader() []string {
	return []string{"Retry-After", "50", "X-RateLimit-Limit", "3", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1767225660",
		"RateLimit-Policy", `"default";q=3;w=60`, "RateLimit", `"default";r=0;t=50`}
}

func TestWhatIsNotAsItIsDescribedIsReported(t *testing.T) {
	spec, err := openapitest.Load(httpapi.Description)
	if err != nil {
		t.Fatal(err)
	}
	ping := func() *openapitest.Exchange { return exchange(t, "GET", "/ping", "", 200, jsonType, pong) }
	refusal := func() *openapitest.Exchange {
		return exchange(t, "GET", "/ping", "", 429, problemType, refused, refusedHeader()...)
	}
	calls := func(query string) *openapitest.Exchange {
		e := exchange(t, "GET", "/v1/calls"+query, "", 200, "application/x-ndjson", line+line)
		e.Header.Set("Authorization", "Bearer t")
		return e
	}
	quota := func(sent string) *openapitest.Exchange {
		e := exchange(t, "PUT", "/v1/quotas?policy=p&key=k", sent, 200, jsonType, `{"policy":"p","key":"k","limit":"unlimited"}`)
		e.Header.Set("Authorization", "Bearer t")
		return e
	}
	for _, c := range []struct {
		name     string
		exchange *openapitest.Exchange
		change   func(e *openapitest.Exchange)
		want     string // in the error, "" for none
	}{
		{"a ping", ping(), nil, ""},
		{"a refusal", refusal(), nil, ""},
		{"lines", calls("?key=k&kind=hit,reset&limit=2&from=2026-01-01T00:00:00Z&allowed=true"), nil, ""},
		{"a quota", quota(`{"limit":5}`), nil, ""},
		{"HEAD", exchange(t, "HEAD", "/ping", "", 200, jsonType, ""), nil, ""},
		{"another path", exchange(t, "GET", "/nope", "", 404, problemType, `{"type":"about:blank","title":"Not Found","status":404}`), nil, ""},
		{"no HTTP", exchange(t, "", "", "", 400, problemType, `{"type":"about:blank","title":"Bad Request","status":400}`), nil, ""},
		{"what a client sends wrongly and is told", exchange(t, "GET", "/status", "", 422, problemType,
			`{"type":"https://github.com/nene2-ft/ratelimitlog/problems/invalid-request","title":"t","status":422,"detail":"d","instance":"/","errors":[{"detail":"d"}]}`), nil, ""},

		{"a member more", ping(), func(e *openapitest.Exchange) { e.Body = []byte(pong[:len(pong)-1] + `,"more":1}`) }, "'more' not allowed"},
		{"a member more of a problem", refusal(), func(e *openapitest.Exchange) { e.Body = []byte(refused[:len(refused)-1] + `,"more":1}`) }, "'more' not allowed"},
		{"a member less", ping(), func(e *openapitest.Exchange) { e.Body = []byte(strings.Replace(pong, `"key":"k",`, "", 1)) }, "missing property 'key'"},
		{"another type", ping(), func(e *openapitest.Exchange) { e.Body = []byte(strings.Replace(pong, `"count":1`, `"count":"1"`, 1)) }, "at '/count'"},
		{"no whole number", ping(), func(e *openapitest.Exchange) { e.Body = []byte(strings.Replace(pong, `"count":1`, `"count":1.5`, 1)) }, "at '/count'"},
		{"more than 64 bits", ping(), func(e *openapitest.Exchange) {
			e.Body = []byte(strings.Replace(pong, `"count":1`, `"count":9223372036854775808`, 1))
		}, "int64"},
		{"another text for no limit", ping(), func(e *openapitest.Exchange) {
			e.Body = []byte(strings.Replace(pong, `"limit":3`, `"limit":"none"`, 1))
		}, "at '/limit'"},
		{"a time that is none", ping(), func(e *openapitest.Exchange) {
			e.Body = []byte(strings.Replace(pong, "T00:01:00Z", " 00:01", 1))
		}, "date-time"},
		{"another problem", refusal(), func(e *openapitest.Exchange) {
			e.Body = []byte(strings.Replace(refused, "rate-limit-exceeded", "other", 1))
		}, "at '/type'"},
		{"no JSON", ping(), func(e *openapitest.Exchange) { e.Body = []byte(`{"message":`) }, "not JSON"},
		{"a status more", ping(), func(e *openapitest.Exchange) { e.Status = 418 }, "the status 418 is not described"},
		{"another operation's status", ping(), func(e *openapitest.Exchange) { e.Status = 406 }, "the status 406 is not described"},
		{"a required header less", refusal(), func(e *openapitest.Exchange) { e.ResponseHeader.Del("Retry-After") }, "Retry-After is missing"},
		{"a header less", ping(), func(e *openapitest.Exchange) { e.ResponseHeader.Del("X-Request-Id") }, "X-Request-Id is missing"},
		{"a header twice", refusal(), func(e *openapitest.Exchange) { e.ResponseHeader.Add("Retry-After", "1") }, "Retry-After is there 2 times"},
		{"a header more", ping(), func(e *openapitest.Exchange) { e.ResponseHeader.Set("X-More", "1") }, "X-More is not described"},
		{"another type of a header", refusal(), func(e *openapitest.Exchange) { e.ResponseHeader.Set("Retry-After", "soon") }, "Retry-After"},
		{"Retry-After of 0", refusal(), func(e *openapitest.Exchange) { e.ResponseHeader.Set("Retry-After", "0") }, "Retry-After"},
		{"another form", ping(), func(e *openapitest.Exchange) { e.ResponseHeader.Set("Content-Type", "text/html") }, `"text/html" is not described`},
		{"no form", ping(), func(e *openapitest.Exchange) { e.ResponseHeader.Del("Content-Type") }, "Content-Type"},
		{"HEAD with a body", ping(), func(e *openapitest.Exchange) { e.Method = "HEAD" }, "has a body"},
		{"nothing with a body", ping(), func(e *openapitest.Exchange) { e.Method, e.URL.Path, e.Status = "OPTIONS", "/", 204 }, "a body is not described"},
		{"another path that is answered", ping(), func(e *openapitest.Exchange) { e.URL.Path = "/nope" }, "the status 200 is not described"},
		{"no HTTP that is answered", ping(), func(e *openapitest.Exchange) { e.Method = "" }, "the status 200 is not described"},
		{"a line that is not right", calls(""), func(e *openapitest.Exchange) { e.Body = []byte(line + `{"id":2}` + "\n") }, "missing properties"},
		{"a line without an end", calls(""), func(e *openapitest.Exchange) { e.Body = []byte(line + `{"id":2`) }, "the last line has no end"},
		{"lines cut off", calls(""), func(e *openapitest.Exchange) { e.Body, e.Whole = []byte(line+`{"id":2`), false }, ""},

		{"accepted: a parameter more", calls("?kee=k"), nil, "kee, which is not described"},
		{"accepted: a parameter twice", calls("?key=k&key=k"), nil, "2 values of the parameter key"},
		{"accepted: another type", calls("?limit=x"), nil, "the parameter limit"},
		{"accepted: one of a list", calls("?kind=hit,nope"), nil, "the parameter kind"},
		{"accepted: out of bounds", calls("?limit=0"), nil, "the parameter limit"},
		{"accepted: a parameter less", exchange(t, "GET", "/status", "", 200, jsonType,
			`{"key":"k","policy":"p","limit":1,"count":0,"refused":0,"remaining":1,"window_start":"2026-01-01T00:00:00Z","window_end":"2026-01-01T00:00:00Z"}`), nil, "without the parameter key"},
		{"accepted: no token", calls(""), func(e *openapitest.Exchange) { e.Header = http.Header{} }, "accepted without a token"},
		{"accepted: a body that is not right", quota(`{"limit":-1}`), nil, "at '/limit'"},
		{"accepted: a body with more", quota(`{"limit":1,"more":1}`), nil, "'more' not allowed"},
		{"accepted: no body", quota(""), nil, "not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.exchange)
			}
			err := spec.Check(c.exchange)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
		})
	}
}

// suite is a suite of tests.
type suite func()

func (s suite) Run() int {
	s()
	return 0
}

// A suite whose servers answer what is not described fails, whoever closes the answer
// how.
func TestASuiteFailsWithWhatItsServersAnswer(t *testing.T) {
	silence(t)
	body := pong
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", jsonType)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Request-ID", "r")
		if r.Header.Get("X-More") != "" {
			header.Set("X-More", "1")
		}
		io.WriteString(w, body)
	}))
	defer server.Close()
	get := func(more string, read bool) {
		request, err := http.NewRequest("GET", server.URL+"/ping", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-More", more)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if read {
			io.ReadAll(response.Body)
		}
		response.Body.Close()
	}
	run := func(test func()) int {
		witness, err := openapitest.NewWitness(httpapi.Description)
		if err != nil {
			t.Fatal(err)
		}
		defer func(before http.RoundTripper) { http.DefaultTransport = before }(http.DefaultTransport)
		code := openapitest.Main(suite(test), witness)
		if witness.Held() == 0 {
			t.Error("nothing was held to the description")
		}
		return code
	}
	if code := run(func() { get("", true); get("", false) }); code != 0 {
		t.Errorf("what is described fails with %d", code)
	}
	if code := run(func() { get("1", false) }); code != 1 {
		t.Errorf("a header, the body not read: %d", code)
	}
	if code := run(func() {
		for range 150 { // those after the first hundred alike are not all looked at
			get("", true)
		}
		body = `{}`
		for range 50 {
			get("", true)
		}
	}); code != 1 {
		t.Errorf("a body: %d", code)
	}
}

// silence keeps what is printed on purpose from the output of the tests.
func silence(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = null
	t.Cleanup(func() {
		os.Stdout = before
		null.Close()
	})
}
