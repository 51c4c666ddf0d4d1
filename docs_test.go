package ratelimitlog_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
)

// recipes are the stories that docs/policies.md tells of the files in docs/policies.
// Each is given a copy of its file, which it may change.
var recipes = map[string]func(t *testing.T, file string){
	"login.yaml":      loginRecipe,
	"public-api.yaml": publicAPIRecipe,
	"monthly.yaml":    monthlyRecipe,
	"shadow.yaml":     shadowRecipe,
}

func TestEveryRecipeDoesWhatTheGuideSays(t *testing.T) {
	files, err := filepath.Glob("docs/policies/*")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		name := filepath.Base(file)
		found[name] = true
		t.Run(name, func(t *testing.T) {
			story := recipes[name]
			if story == nil {
				t.Fatal("no test tells its story")
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			own := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(own, text, 0o600); err != nil {
				t.Fatal(err)
			}
			story(t, own)
		})
	}
	for name := range recipes {
		if !found[name] {
			t.Errorf("there is no docs/policies/%s", name)
		}
	}
}

// serveRecipe runs a server with the file, an admin token, and a quick look at the file.
func serveRecipe(t *testing.T, file string) *service {
	t.Helper()
	return serve(t, func(c *ratelimitlog.Config) {
		c.PolicyFile, c.AdminToken, c.ReloadEvery = file, "secret", time.Millisecond
	})
}

const (
	// allowedByRoute is how a request is answered that a route allows and that no handler takes.
	allowedByRoute = http.StatusNotFound
	refused        = http.StatusTooManyRequests
)

// wantCounter checks what a key has attempted and what of it was refused.
func (s *service) wantCounter(t *testing.T, policy, key string, attempted, refused int64) {
	t.Helper()
	a := s.request(t, "GET", "/v1/counters?policy="+policy+"&key="+key)
	if want := fmt.Sprintf(`"count":%d,"refused":%d,`, attempted, refused); !strings.Contains(a.body, want) {
		t.Errorf("%s of %s: %s, want %s", policy, key, a.body, want)
	}
}

func wantStatus(t *testing.T, what string, a answer, status int) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: %d %s, want %d", what, a.status, a.body, status)
	}
}

func loginRecipe(t *testing.T, file string) {
	s := serveRecipe(t, file)
	login := func(forwarded ...string) answer {
		var headers []string
		for _, line := range forwarded {
			headers = append(headers, "X-Forwarded-For", line)
		}
		return s.request(t, "POST", "/login", headers...)
	}
	for i := range 5 {
		a := login(fmt.Sprintf("198.51.100.%d, 203.0.113.9", i))
		wantStatus(t, fmt.Sprintf("attempt %d", i+1), a, allowedByRoute)
		a.wantHeader(t, "X-RateLimit-Remaining", fmt.Sprint(4-i))
	}
	a := login("198.51.100.5, 203.0.113.9")
	wantStatus(t, "attempt 6", a, refused)
	// Of five in the first quarter of an hour four weigh in until a fifth of the next has passed.
	a.wantHeader(t, "Retry-After", fmt.Sprint(15*60+3*60-10))
	wantStatus(t, "on two lines", login("203.0.113.200", "203.0.113.9"), refused)
	wantStatus(t, "with the proxy's own hop", login("203.0.113.9, 127.0.0.1"), refused)
	wantStatus(t, "in another spelling", s.request(t, "POST", "/LOGIN/?x", "X-Forwarded-For", "203.0.113.9"), refused)
	wantStatus(t, "from another address", login("203.0.113.9, 203.0.113.10"), allowedByRoute)
	wantStatus(t, "by a method that is not limited", s.request(t, "GET", "/login", "X-Forwarded-For", "203.0.113.9"), http.StatusNotFound)
	s.wantCounter(t, "login-address", "ip:203.0.113.9", 9, 4)

	const attempt, look = `{"key":"alice","policies":["login-user"]}`, `{"key":"alice","policies":["login-user"],"cost":0}`
	for i := range 10 {
		if a := s.post(t, "/v1/hits", look); !strings.Contains(a.body, fmt.Sprintf(`"remaining":%d,`, 10-i)) {
			t.Errorf("a look after %d: %s", i, a.body)
		}
		wantStatus(t, "an attempt for alice", s.post(t, "/v1/hits", attempt), http.StatusOK)
	}
	wantStatus(t, "attempt 11 for alice", s.post(t, "/v1/hits", attempt), refused)
	wantStatus(t, "a reset without the token", s.request(t, "DELETE", "/v1/counters?policy=login-user&key=alice"), http.StatusUnauthorized)
	wantStatus(t, "a reset", s.request(t, "DELETE", "/v1/counters?policy=login-user&key=alice", "Authorization", "Bearer secret"), http.StatusNoContent)
	wantStatus(t, "after the reset", s.post(t, "/v1/hits", attempt), http.StatusOK)

	s.clock.advance((15*60 + 3*60 - 10 - 1) * time.Second)
	wantStatus(t, "a second too early", login("203.0.113.9"), refused)
	s.clock.advance(time.Second)
	wantStatus(t, "after Retry-After", login("203.0.113.9"), allowedByRoute)
}

func publicAPIRecipe(t *testing.T, file string) {
	s := serveRecipe(t, file)
	const abc = "bearer:ba7816bf8f01cfea414140de5dae2223" // SHA-256 of "abc", its first half
	get := func(path string, headers ...string) answer { return s.request(t, "GET", path, headers...) }
	for range 10 {
		a := get("/things", "Authorization", "Bearer abc")
		wantStatus(t, "in a burst", a, allowedByRoute)
		a.wantHeader(t, "RateLimit-Policy", `"burst";q=10;w=1, "sustained";q=1000;w=3600`)
	}
	a := get("/other/things", "Authorization", "Bearer abc")
	wantStatus(t, "request 11 in a second", a, refused)
	a.wantHeader(t, "Retry-After", "1")
	s.wantCounter(t, "burst", abc, 11, 1)
	s.wantCounter(t, "sustained", abc, 10, 0) // is not charged
	wantStatus(t, "another token", get("/things", "Authorization", "Bearer xyz"), allowedByRoute)
	s.clock.advance(time.Second)
	for second := range 99 { // with the ten before that is a thousand
		for range 10 {
			wantStatus(t, fmt.Sprintf("in second %d", second+1), get("/things", "Authorization", "Bearer abc"), allowedByRoute)
		}
		s.clock.advance(time.Second)
	}
	a = get("/things", "Authorization", "Bearer abc")
	wantStatus(t, "request 1001 in an hour", a, refused)
	if !strings.Contains(a.body, `"violated-policies":["sustained"]`) {
		t.Errorf("refused otherwise: %s", a.body)
	}

	get("/things", "X-Forwarded-For", "203.0.113.9") // no proxy is trusted
	s.wantCounter(t, "sustained", "ip:127.0.0.1", 1, 0)
	get("/partners/orders", "X-Api-Key", "acme", "Authorization", "Bearer abc")
	s.wantCounter(t, "sustained", "acme", 1, 0)
	get("/partners", "X-Api-Key", "ip:127.0.0.1") // passes for no address
	s.wantCounter(t, "sustained", "ip:127.0.0.1", 1, 0)
	s.wantCounter(t, "sustained", "header:ip:127.0.0.1", 1, 0)
	get("/partners/orders")
	s.wantCounter(t, "sustained", "ip:127.0.0.1", 2, 0)
	wantStatus(t, "a key twice", get("/partners/orders", "X-Api-Key", "a", "X-Api-Key", "b"), http.StatusUnprocessableEntity)

	for range 20 {
		wantStatus(t, "health", get("/healthz"), http.StatusOK)
		wantStatus(t, "the server's own API", get("/v1/policies"), http.StatusOK)
	}
	wantStatus(t, "status", get("/status?key=k"), http.StatusOK) // is in "*"
	s.wantCounter(t, "sustained", "ip:127.0.0.1", 3, 0)
	if a := s.ping(t, "k"); a.status != http.StatusOK || !strings.Contains(a.body, `"policy":"default"`) {
		t.Errorf("ping has another route: %d %s", a.status, a.body)
	}
}

func monthlyRecipe(t *testing.T, file string) {
	s := serveRecipe(t, file)
	hit := func(policy string, cost int) answer {
		return s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"acme","policies":["%s"],"cost":%d}`, policy, cost))
	}
	wantMonth := func(policy, start, end string) {
		t.Helper()
		a := hit(policy, 1)
		if a.status != http.StatusOK || !strings.Contains(a.body, `"window_start":"`+start+`","window_end":"`+end+`"`) {
			t.Errorf("%s: %d %s, want a month from %s to %s", policy, a.status, a.body, start, end)
		}
	}
	wantMonth("monthly-tokyo", "2025-12-31T15:00:00Z", "2026-01-31T15:00:00Z")
	wantMonth("monthly-berlin", "2025-12-31T23:00:00Z", "2026-01-31T23:00:00Z")
	wantStatus(t, "the rest of the month", hit("monthly-berlin", 9999), http.StatusOK)
	a := hit("monthly-berlin", 1)
	wantStatus(t, "beyond the plan", a, refused)
	a.wantHeader(t, "Retry-After", fmt.Sprint(31*24*60*60-60*60-10))

	const quota = "/v1/quotas?policy=monthly-berlin&key=acme"
	put := func(limit string) answer {
		r, err := http.NewRequest("PUT", s.url+quota, strings.NewReader(`{"limit":`+limit+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return answer{status: response.StatusCode, header: response.Header}
	}
	wantStatus(t, "a quota", put("50000"), http.StatusOK)
	a = hit("monthly-berlin", 40000) // what was used stays used
	wantStatus(t, "by the quota", a, http.StatusOK)
	a.wantHeader(t, "X-RateLimit-Limit", "50000")
	wantStatus(t, "beyond the quota", hit("monthly-berlin", 1), refused)
	wantStatus(t, "another customer", s.post(t, "/v1/hits", `{"key":"other","policies":["monthly-berlin"],"cost":10001}`), http.StatusUnprocessableEntity)
	wantStatus(t, "no limit", put(`"unlimited"`), http.StatusOK)
	wantStatus(t, "without a limit", hit("monthly-berlin", 1000000), http.StatusOK)
	wantStatus(t, "back to the plan", s.request(t, "DELETE", quota, "Authorization", "Bearer secret"), http.StatusNoContent)
	wantStatus(t, "by the plan again", hit("monthly-berlin", 1), refused)

	// What the command does: another process sets it, and the server notices.
	limiter, cleanup, err := ratelimitlog.NewLimiter(context.Background(), ratelimitlog.Config{DSN: s.dsn, PolicyFile: file, LogTo: s.log})
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	if err := limiter.SetQuota(t.Context(), domain.Quota{Policy: "monthly-berlin", Key: "acme", Limit: domain.Unlimited}, domain.Origin{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota of another process", func() bool { return hit("monthly-berlin", 1).status == http.StatusOK })

	s.clock.advance(75 * 24 * time.Hour) // the clocks go forward in Berlin at the end of March
	wantMonth("monthly-tokyo", "2026-02-28T15:00:00Z", "2026-03-31T15:00:00Z")
	wantMonth("monthly-berlin", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z")
}

func shadowRecipe(t *testing.T, file string) {
	s := serveRecipe(t, file)
	search := func() answer { return s.request(t, "GET", "/search", "X-Api-Key", "alice") }
	for range 22 {
		a := search()
		wantStatus(t, "in shadow", a, allowedByRoute)
		a.wantHeader(t, "RateLimit-Policy", `"current";q=100;w=60`) // clients see nothing of it
	}
	a := s.post(t, "/v1/hits", `{"key":"alice","policies":["current","stricter"]}`)
	if a.status != http.StatusOK || !strings.HasPrefix(a.body, `{"allowed":true,`) ||
		!strings.Contains(a.body, `{"policy":"stricter","allowed":false,"shadow":true,"limit":20,"count":23,"refused":3,`) {
		t.Errorf("the answer does not say what would have been: %d %s", a.status, a.body)
	}
	eventually(t, "the log", func() bool {
		return count(t, s.dsn, theGuidesQuery(t))["alice"] == 3
	})

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	live := strings.Replace(string(text), ", shadow: true", "", 1)
	if live == string(text) {
		t.Fatal("nothing is in shadow")
	}
	replaceFile(t, file, live)
	eventually(t, "the policy is live", func() bool {
		return strings.Contains(s.request(t, "GET", "/v1/policies").body, `{"name":"stricter","limit":20,"window":"fixed 1m"}`)
	})
	a = search()
	wantStatus(t, "live", a, refused)
	a.wantHeader(t, "Retry-After", "50")
	if !strings.Contains(a.body, `"violated-policies":["stricter"]`) {
		t.Errorf("refused otherwise: %s", a.body)
	}
	s.wantCounter(t, "current", "alice", 23, 0)
	s.wantCounter(t, "stricter", "alice", 24, 4)
	wantStatus(t, "another client", s.request(t, "GET", "/search", "X-Api-Key", "bob"), allowedByRoute)
	if n := count(t, s.dsn, theGuidesQuery(t))["alice"]; n != 3 {
		t.Errorf("%d rows in shadow, 3 before it was live", n)
	}
}

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// theGuidesQuery is the SQL that the guide prints.
func theGuidesQuery(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)sqlite3 -header ratelimitlog\.db "(.*?)"`).FindStringSubmatch(guide(t))
	if found == nil {
		t.Fatal("the guide has no SQL")
	}
	return found[1]
}

func TestTheGuidePrintsTheRecipesAsTheyAre(t *testing.T) {
	text := guide(t)
	printed := regexp.MustCompile("(?s)\\[policies/(\\S+)\\]\\(policies/(\\S+)\\)\n\n```yaml\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	if blocks := strings.Count(text, "```yaml"); blocks != len(printed) || len(printed) != len(recipes) {
		t.Errorf("%d recipes are printed in %d blocks of YAML, there are %d", len(printed), blocks, len(recipes))
	}
	for _, match := range printed {
		recipe, err := os.ReadFile(filepath.Join("docs/policies", match[1]))
		if err != nil {
			t.Error(err)
		} else if match[1] != match[2] || match[3] != string(recipe) {
			t.Errorf("%s is printed as\n%s\nit is\n%s", match[1], match[3], recipe)
		}
	}
}

// What the guide says of schedules, paths, keys and addresses, where no recipe shows it.
func TestWhatTheGuideSaysBesidesIsTrue(t *testing.T) {
	serveFile := func(text string) *service {
		file := filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return serveRecipe(t, file)
	}
	s := serveFile(`policies:
  a: {limit: 1000, window: 7d}
  b: {limit: 1000, window: calendar week}
  fixed: {limit: 10, window: 1s}
  slides: {limit: 10, window: sliding 1s}
routes:
  - {path: /api/*, key: header X-One, policies: [a]}
  - {path: /api/users, key: header X-Two, policies: [a]}
  - {path: /constant, key: constant same, policies: [a]}
client_address: {trusted_proxies: [127.0.0.0/8], header: Forwarded}
`)
	s.clock.advance(3 * 24 * time.Hour) // Sunday, January 4
	a := s.post(t, "/v1/hits", `{"key":"k","policies":["a","b"]}`)
	for policy, start := range map[string]string{"a": "2026-01-01", "b": "2025-12-29"} { // a Thursday, a Monday
		if !strings.Contains(a.body, `"policy":"`+policy+`"`) || !strings.Contains(a.body, `"window_start":"`+start+`T00:00:00Z"`) {
			t.Errorf("the week of %s does not start on %s: %s", policy, start, a.body)
		}
	}
	s.clock.advance(900 * time.Millisecond)
	passed := map[string]int{}
	for range 2 {
		for _, policy := range []string{"fixed", "slides"} {
			for range 10 {
				if s.post(t, "/v1/hits", `{"key":"k","policies":["`+policy+`"]}`).status == http.StatusOK {
					passed[policy]++
				}
			}
		}
		s.clock.advance(100 * time.Millisecond)
	}
	if passed["fixed"] != 20 || passed["slides"] != 10 {
		t.Errorf("within a tenth of a second passed %v, want 20 of fixed and 10 of slides", passed)
	}

	spellings := []string{"/api/users", "/API//users/", "/api/%75sers", "/api;v=1/users", "/api/users?x=1"}
	for _, path := range spellings {
		s.request(t, "GET", path, "X-One", "one", "X-Two", "same")
	}
	s.wantCounter(t, "a", "one", 0, 0)
	s.request(t, "GET", "/api", "X-One", "one")
	s.wantCounter(t, "a", "one", 1, 0)
	s.request(t, "GET", "/api/users/7", "X-One", "same")
	s.request(t, "GET", "/constant")
	s.wantCounter(t, "a", "same", int64(len(spellings))+2, 0)
	if a := s.request(t, "GET", "/PING", "X-Client-Key", "k"); a.status != http.StatusNotFound {
		t.Errorf("/PING: %d", a.status)
	}
	s.wantCounter(t, "default", "k", 0, 0)

	for _, forwarded := range []string{`for=198.51.100.1, for="[2001:db8::1]"`, `for=198.51.100.2, for="[2001:db8::2]:80";proto=https, for=127.0.0.2`} {
		s.request(t, "GET", "/api", "X-One", "", "Forwarded", forwarded, "X-Forwarded-For", "203.0.113.9")
	}
	s.wantCounter(t, "a", "ip:2001:db8::/64", 2, 0) // an empty header is none, and X-Forwarded-For is not read
	s.request(t, "GET", "/api", "Forwarded", "for=203.0.113.7, for=unknown, for=127.0.0.2")
	s.wantCounter(t, "a", "ip:127.0.0.2", 1, 0) // the hop before the one that is no address
}

// The reader tells which members it knows when it meets one that it does not.
func TestExampleAndGuideNameEveryMember(t *testing.T) {
	const policies = "policies: {a: {limit: 1, window: 1m}}\n"
	text := guide(t)
	for _, file := range []string{
		"x: 1\n", "policies: {a: {x: 1}}\n", policies + "routes: [{x: 1}]\n", policies + "client_address: {x: 1}\n",
	} {
		_, err := policyfile.Parse("f", []byte(file))
		found := regexp.MustCompile(`it may have \[(.+?)\]`).FindStringSubmatch(fmt.Sprint(err))
		if found == nil {
			t.Errorf("%q: %v, which tells no members", file, err)
			continue
		}
		for member := range strings.FieldsSeq(found[1]) {
			if !regexp.MustCompile(`(?m)^[ -]*` + member + `:`).MatchString(policyfile.Example) {
				t.Errorf("the example does not have %s", member)
			}
			if !strings.Contains(text, "\n| `"+member+"` |") && !strings.Contains(text, "\n| "+member+":") {
				t.Errorf("the guide has no row or table for %s", member)
			}
		}
	}
}

func TestTheGuideToAdaptersPrintsTheExampleAsItIs(t *testing.T) {
	text, err := os.ReadFile("docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile("(?s)\\[adapters/(\\S+)\\]\\(adapters/(\\S+)\\):\n\n```go\n(.*?)```\n").FindAllStringSubmatch(string(text), -1)
	if blocks := strings.Count(string(text), "```go\n"); len(printed) != 2 || blocks != 2 {
		t.Errorf("%d files are printed in %d blocks, there are 2", len(printed), blocks)
	}
	for _, match := range printed {
		file, err := os.ReadFile(filepath.Join("docs/adapters", match[1]))
		if err != nil {
			t.Error(err)
		} else if match[1] != match[2] || match[3] != string(file) {
			t.Errorf("%s is printed as\n%s\nit is\n%s", match[1], match[3], file)
		}
	}
}

// The guide names tests of the kit; they exist.
func TestTheGuideToAdaptersNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("domain/storetest/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var kit strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") {
			kit.Write(source)
		}
	}
	_, table, _ := strings.Cut(string(text), "## Common mistakes")
	named := regexp.MustCompile("`([A-Z]\\w+)/([^`]+)`").FindAllStringSubmatch(table, -1)
	if len(named) < 40 {
		t.Errorf("the guide names %d tests", len(named))
	}
	for _, name := range named {
		for _, part := range name[1:] {
			if !strings.Contains(kit.String(), `t.Run("`+part+`"`) {
				t.Errorf("the kit has no test %q", name[0])
			}
		}
	}
}

// The SQL by which the README finds a key's calls finds all of them, in order, and reads
// through no table.
func TestTheReadmesQueryFindsTheCallsOfAKeyAtOnce(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)sqlite3 -header ratelimitlog\.db "(\nWITH .*?)"`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("the README has no such SQL")
	}
	query := strings.ReplaceAll(found[1], "'alice'", "'k7'")
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	store, err := gormstore.Open(t.Context(), dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	calls := make([]domain.Call, 1000)
	for i := range calls {
		calls[i] = domain.Call{Kind: domain.CallHit, At: newYear, Policy: fmt.Sprint("p", i%2), Key: fmt.Sprint("k", i/2%50), Cost: 1, Hits: 1, Allowed: true, WindowStart: newYear, Schedule: "fixed 1m"}
	}
	const pages = 40 // two full blocks, and some
	for range pages {
		if err := store.Append(t.Context(), calls); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "two blocks", func() bool { return count(t, dsn, "SELECT 'n', count(DISTINCT block) FROM api_call_blocks")["n"] == 2 })
	db := database(t, dsn)
	defer db.Close()
	idsOf := func(query string) (ids string) {
		t.Helper()
		if err := db.QueryRow("SELECT group_concat(id) FROM (" + query + ")").Scan(&ids); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return ids
	}
	got, want := idsOf(query), idsOf("SELECT * FROM api_calls WHERE key = 'k7' ORDER BY id")
	if strings.Count(want, ",") != 20*pages-1 || got != want {
		t.Errorf("it finds calls %s\nof %s", got, want)
	}
	plan, err := db.Query("EXPLAIN QUERY PLAN " + query)
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	for plan.Next() {
		var step string
		if err := plan.Scan(new(int), new(int), new(int), &step); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(step, "SCAN api_calls") || strings.HasPrefix(step, "SCAN k") {
			t.Errorf("it reads through a table: %s", step)
		}
	}
}
