package policyfile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
)

func TestTheExampleIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policyfile.Example), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := policyfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range rules.Policies {
		got = append(got, fmt.Sprintf("%s %s %s %v %+v", p.Name, domain.FormatLimit(p.Limit), p.Schedule, p.Shadow, p.Audit))
	}
	for _, r := range rules.Routes.All() {
		got = append(got, fmt.Sprintf("%s %v %s, %s %v", r.Path, r.Methods, r.Key, r.Fallback, r.Policies))
	}
	want := []string{
		"default 60 fixed 1m false {Log:all Sample:0 Keep:0s MaxRows:0}", "login 5 sliding 15m false {Log:all Sample:0 Keep:0s MaxRows:0}",
		"monthly 100000 calendar month Asia/Tokyo true {Log:refused Sample:0.1 Keep:720h0m0s MaxRows:100000}",
		"/ping [GET HEAD] header X-Client-Key, constant 127.0.0.1 [default]", "/api/* [] bearer, client address [default monthly]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if c := rules.ClientAddress; len(c.Trusted) != 0 || c.Header != "X-Forwarded-For" || c.IPv6Prefix != 64 {
		t.Errorf("client_address = %+v", c)
	}
}

func TestFlowStyleQuotesUnlimitedAndAByteOrderMark(t *testing.T) {
	rules, err := policyfile.Parse("f", []byte("\uFEFFpolicies: {b: {limit: \"7\", window: '1h'}, a: {limit: unlimited, window: fixed 10s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	policies := rules.Policies
	if len(policies) != 2 || policies[0].Name != "a" || policies[0].Limit != domain.Unlimited || policies[1].Limit != 7 || policies[1].Schedule.String() != "fixed 1h" {
		t.Errorf("read %+v", policies)
	}
}

func TestErrorsNameLineAndColumn(t *testing.T) { // cases 19, 22, 37, 139
	for name, c := range map[string]struct{ file, want string }{
		"empty file":       {"", "f:1:1: the file must hold one document"},
		"only a comment":   {"# nothing\n", "f:1:1: the file must hold one document"},
		"no YAML":          {"policies: {a: {limit: 1, window: 1m}\n", "f:1:11: this is not YAML"},
		"colons":           {"::", "f:1:"},
		"a list":           {"- a\n", `f:1:1: the file must be a mapping, it is a list`},
		"a word":           {"hello\n", `f:1:1: the file must be a mapping, it is "hello"`},
		"another member":   {"policy: {}\n", `f:1:1: the file has no member "policy"; it may have [policies routes client_address]`},
		"no policies":      {"policies: {}\n", "there is no policy in it"},
		"null policies":    {"policies:\n", "policies must be a mapping, it is empty"},
		"no limit":         {"policies:\n  a: {window: 1m}\n", "f:2:3: policy a has no limit"},
		"no window":        {"policies:\n  a:\n    limit: 1\n", "f:2:3: policy a has no window"},
		"null limit":       {"policies:\n  a:\n    limit:\n    window: 1m\n", `f:3:11: policy a: limit must be a single value, it is empty`},
		"empty limit":      {"policies:\n  a:\n    limit: \"\"\n    window: 1m\n", `f:3:12: policy a: limit "" is not a whole number`},
		"negative limit":   {"policies:\n  a:\n    limit: -1\n    window: 1m\n", `f:3:12: policy a: limit "-1" is not a whole number`},
		"fractional limit": {"policies:\n  a: {limit: 1.5, window: 1m}\n", `f:2:14: policy a: limit "1.5" is not a whole number`},
		"list limit":       {"policies:\n  a: {limit: [1], window: 1m}\n", `f:2:14: policy a: limit`},
		"window 0":         {"policies:\n  a: {limit: 1, window: 0s}\n", "f:2:25: policy a: window of 0s is too short"},
		"window -60":       {"policies:\n  a: {limit: 1, window: -60}\n", `policy a: window "-60" is not a schedule`},
		"sub-second":       {"policies:\n  a: {limit: 1, window: 500ms}\n", `f:2:25: policy a: window "500ms" is not a schedule`},
		"unknown zone":     {"policies:\n  a:\n    limit: 1\n    window: calendar day Mars/Phobos\n", `f:4:13: policy a: window is in the time zone "Mars/Phobos", which does not exist`},
		"calendar hours":   {"policies:\n  a: {limit: 1, window: calendar 5h}\n", `f:2:25: policy a: window has the calendar unit "5h"`},
		"unknown member":   {"policies:\n  a: {limit: 1, window: 1m, burst: 2}\n", `f:2:29: policy a has no member "burst"; it may have [limit window shadow on_store_error audit]`},
		"bad name":         {"policies:\n  \"a b\": {limit: 1, window: 1m}\n", `f:2:3: policy name "a b"`},
		"policy twice":     {"policies:\n  a: {limit: 1, window: 1m}\n  a: {limit: 2, window: 1m}\n", "f:3:3: "},
		"member twice":     {"policies:\n  a: {limit: 1, limit: 2, window: 1m}\n", "f:2:17: "},
		"shadow a word":    {"policies:\n  a: {limit: 1, window: 1m, shadow: maybe}\n", `f:2:37: policy a: shadow must be true or false, it is "maybe"`},
		"shadow quoted":    {"policies:\n  a: {limit: 1, window: 1m, shadow: \"true\"}\n", `f:2:37: policy a: shadow must be true or false`},
		"on_store_error":   {"policies:\n  a: {limit: 1, window: 1m, on_store_error: maybe}\n", `f:2:45: policy a: on_store_error must be open or closed, it is "maybe"`},
		"two documents":    {"policies: {a: {limit: 1, window: 1m}}\n---\npolicies: {}\n", "one document"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := policyfile.Parse("f", []byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || rules.Policies != nil {
				t.Errorf("read %v, %v\nwant an error with %q", rules, err, c.want)
			}
		})
	}
}

func TestErrorsOfRoutesNameLineAndColumn(t *testing.T) {
	const head = "policies: {a: {limit: 1, window: 1m}}\n"
	for name, c := range map[string]struct{ file, want string }{
		"no list":             {"routes: {}\n", "f:2:9: routes must be a list"},
		"no mapping":          {"routes: [x]\n", `f:2:10: a route must be a mapping, it is "x"`},
		"unknown member":      {"routes:\n- {path: /, key: bearer, policies: [a], limit: 1}\n", `f:3:41: a route has no member "limit"`},
		"no path":             {"routes:\n- {key: bearer, policies: [a]}\n", "f:3:3: the route has no path"},
		"no key":              {"routes:\n- {path: /, policies: [a]}\n", "f:3:3: the route has no key"},
		"no policies":         {"routes:\n- {path: /, key: bearer}\n", "f:3:3: the route has no policies"},
		"empty policies":      {"routes:\n- {path: /, key: bearer, policies: []}\n", "route /: policies must name at least one"},
		"unknown policy":      {"routes:\n- {path: /, key: bearer, policies: [a, b]}\n", `f:3:40: there is no policy named "b"`},
		"relative path":       {"routes:\n- {path: x, key: bearer, policies: [a]}\n", `f:3:10: path must begin with / or be "*", it is "x"`},
		"bad method":          {"routes:\n- {path: /, methods: [get], key: bearer, policies: [a]}\n", `methods has "get"`},
		"no methods":          {"routes:\n- {path: /, methods: [], key: bearer, policies: [a]}\n", "f:3:22: methods is empty"},
		"unknown key source":  {"routes:\n- {path: /, key: cookie, policies: [a]}\n", `f:3:18: key source "cookie" is not known`},
		"secret header":       {"routes:\n- {path: /, key: header Authorization, policies: [a]}\n", `f:3:18: key must not be the header Authorization`},
		"header as fallback":  {"routes:\n- {path: /, key: bearer, fallback: header X, policies: [a]}\n", `fallback is "header X", it must be`},
		"star without quotes": {"routes:\n- {path: *, key: bearer, policies: [a]}\n", "a value that begins with * must be in quotes"},
		"methods a word":      {"routes:\n- {path: /, methods: GET, key: bearer, policies: [a]}\n", `f:3:22: methods must be a list, it is "GET"`},
		"clash":               {"routes:\n- {path: /x, key: bearer, policies: [a]}\n- {path: /X/, methods: [GET], key: bearer, policies: [a]}\n", "f:4:3: route /X/: path /x has a route already for the same methods"},
		"list as header":      {"client_address: {header: [X-Forwarded-For, Forwarded]}\n", "f:2:26: header must be a single value, it is a list"},
		"empty header":        {"client_address: {header: }\n", "header must be a single value, it is empty"},
		"alias as header":     {"client_address: {header: *x}\n", "header must be a single value, it is an anchor, an alias"},
		"list as policy":      {"routes:\n- {path: /, key: bearer, policies: [[a]]}\n", "f:3:37: the name of a policy must be a single value"},
		"mapping as path":     {"routes:\n- {path: {a: b}, key: bearer, policies: [a]}\n", "path must begin with /"},
		"list as key":         {"routes:\n- {path: /, key: [bearer], policies: [a]}\n", "f:3:18: key must be a single value, it is a list"},
		"bad proxy":           {"client_address: {trusted_proxies: [10.0.0.0/33]}\n", `f:2:36: trusted_proxies has "10.0.0.0/33"`},
		"everybody trusted":   {"client_address: {trusted_proxies: [0.0.0.0/0]}\n", `f:2:36: trusted_proxies has "0.0.0.0/0", which trusts everybody`},
		"bad header":          {"client_address: {header: \"X Y\"}\n", `f:2:26: header name "X Y" has ' ' at byte 1`},
		"bad prefix":          {"client_address: {ipv6_prefix: 16}\n", `f:2:31: ipv6_prefix must be a whole number from 32 to 128, it is "16"`},
		"no prefix":           {"client_address: {ipv6_prefix: x}\n", `f:2:31: ipv6_prefix must be`},
		"unknown address":     {"client_address: {proxies: []}\n", `f:2:18: client_address has no member "proxies"`},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := policyfile.Parse("f", []byte(head+c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || rules.Policies != nil {
				t.Errorf("read %v, %v\nwant an error with %q", rules, err, c.want)
			}
		})
	}
}

func TestFilesThatTheParserWouldChokeOnAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"mappings":    {"policies: " + strings.Repeat("{a: ", 100_000), "f:1:139: lists and mappings are nested deeper than 32"},
		"lists":       {strings.Repeat("[", 400_000), "f:1:33: lists and"},
		"block lists": {"a:\n" + strings.Repeat("- ", 100_000), "f:2:65: lists and"},
		"keys":        {strings.Repeat("? ", 100_000), "f:1:65: lists and"},
	} {
		if _, err := policyfile.Parse("f", []byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(file, bytes.Repeat([]byte("# large\n"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policyfile.Read(file); err == nil || !strings.Contains(err.Error(), "large.yaml is larger than 4194304 bytes") {
		t.Errorf("a file of 8 MiB: %v", err)
	}
}

func TestAllErrorsAreToldAtOnce(t *testing.T) { // case 140
	_, err := policyfile.Parse("f", []byte("policies:\n  a: {limit: x, window: y}\n  b: {limit: 1, window: 1m}\n  c: 5\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 || !strings.Contains(err.Error(), `f:4:6: policy c must be a mapping, it is "5"`) {
		t.Errorf("err = %v", err)
	}
}

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	if _, err := policyfile.Read("no/such/file.yaml"); err == nil || !strings.Contains(err.Error(), "no/such/file.yaml") {
		t.Errorf("err = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{policyfile.Example, "", "policies: {a: {limit: 1, window: 1m}}", "policies: *a", "a: &a [*a]", "? a", "policies: !!x {}", "policies: {a: {limit: 1, window: 1m}}\nroutes: [{path: /, key: bearer, policies: [a]}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := policyfile.Parse("f", data)
		if (err == nil) == (len(rules.Policies) == 0) {
			t.Errorf("%q: %v, %v", data, rules, err)
		}
	})
}
