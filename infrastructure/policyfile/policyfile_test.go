package policyfile_test

import (
	"os"
	"path/filepath"
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
	policies, err := policyfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range policies {
		got = append(got, p.Name+" "+domain.FormatLimit(p.Limit)+" "+p.Schedule.String())
	}
	if want := "default 60 fixed 1m, login 5 sliding 15m, monthly 100000 calendar month Asia/Tokyo"; strings.Join(got, ", ") != want {
		t.Errorf("read %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestFlowStyleQuotesAndUnlimited(t *testing.T) {
	policies, err := policyfile.Parse("f", []byte("policies: {b: {limit: \"7\", window: '1h'}, a: {limit: unlimited, window: fixed 10s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
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
		"another member":   {"policy: {}\n", `f:1:1: the file has no member "policy"; it may have [policies]`},
		"no policies":      {"policies: {}\n", "there is no policy in it"},
		"null policies":    {"policies:\n", "policies must be a mapping, it is empty"},
		"no limit":         {"policies:\n  a: {window: 1m}\n", "f:2:3: policy a has no limit"},
		"no window":        {"policies:\n  a:\n    limit: 1\n", "f:2:3: policy a has no window"},
		"null limit":       {"policies:\n  a:\n    limit:\n    window: 1m\n", "f:3:"},
		"empty limit":      {"policies:\n  a:\n    limit: \"\"\n    window: 1m\n", `f:3:12: policy a: limit "" is not a whole number`},
		"negative limit":   {"policies:\n  a:\n    limit: -1\n    window: 1m\n", `f:3:12: policy a: limit "-1" is not a whole number`},
		"fractional limit": {"policies:\n  a: {limit: 1.5, window: 1m}\n", `f:2:14: policy a: limit "1.5" is not a whole number`},
		"list limit":       {"policies:\n  a: {limit: [1], window: 1m}\n", `f:2:14: policy a: limit`},
		"window 0":         {"policies:\n  a: {limit: 1, window: 0s}\n", "f:2:25: policy a: window of 0s is too short"},
		"window -60":       {"policies:\n  a: {limit: 1, window: -60}\n", `policy a: window "-60" is not a schedule`},
		"sub-second":       {"policies:\n  a: {limit: 1, window: 500ms}\n", `f:2:25: policy a: window "500ms" is not a schedule`},
		"unknown zone":     {"policies:\n  a:\n    limit: 1\n    window: calendar day Mars/Phobos\n", `f:4:13: policy a: window is in the time zone "Mars/Phobos", which does not exist`},
		"calendar hours":   {"policies:\n  a: {limit: 1, window: calendar 5h}\n", `f:2:25: policy a: window has the calendar unit "5h"`},
		"unknown member":   {"policies:\n  a: {limit: 1, window: 1m, burst: 2}\n", `f:2:29: policy a has no member "burst"; it may have [limit window]`},
		"bad name":         {"policies:\n  \"a b\": {limit: 1, window: 1m}\n", `f:2:3: policy name "a b"`},
		"policy twice":     {"policies:\n  a: {limit: 1, window: 1m}\n  a: {limit: 2, window: 1m}\n", "f:3:3: "},
		"member twice":     {"policies:\n  a: {limit: 1, limit: 2, window: 1m}\n", "f:2:17: "},
		"two documents":    {"policies: {a: {limit: 1, window: 1m}}\n---\npolicies: {}\n", "one document"},
	} {
		t.Run(name, func(t *testing.T) {
			policies, err := policyfile.Parse("f", []byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || policies != nil {
				t.Errorf("read %v, %v\nwant an error with %q", policies, err, c.want)
			}
		})
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
	for _, seed := range []string{policyfile.Example, "", "policies: {a: {limit: 1, window: 1m}}", "policies: *a", "a: &a [*a]", "? a", "policies: !!x {}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := policyfile.Parse("f", data)
		if (err == nil) == (len(policies) == 0) {
			t.Errorf("%q: %v, %v", data, policies, err)
		}
	})
}
