package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

var window = domain.Window{Start: time.Unix(1767225600, 0).UTC(), End: time.Unix(1767225660, 0).UTC()}

// table has an error of each kind that the domain defines, by the name it has there.
var table = map[string]struct {
	err        error
	status     int
	retryAfter int64
}{
	"InvalidError":      {&domain.InvalidError{Field: "key", Reason: "must not be empty"}, 422, 0},
	"NotFoundError":     {&domain.NotFoundError{Kind: "policy", Name: "p"}, 404, 0},
	"RateLimitExceeded": {&domain.RateLimitExceeded{Key: "k", Policy: "p", Limit: 3, Window: window, RetryAfter: 50, Violated: []string{"p"}}, 429, 50},
	"ErrNotFound":       {domain.ErrNotFound, 404, 0},
	"ErrOverloaded":     {domain.ErrOverloaded, 503, 1},
	"ErrUnavailable":    {domain.ErrUnavailable, 503, 1},
}

func TestEveryErrorOfTheDomainHasAProblem(t *testing.T) {
	for name, c := range table {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			if p := problem.From(err); p.Status != c.status || p.RetryAfter != c.retryAfter || p.Title == "" || p.Type == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
	for _, name := range domainErrors(t) {
		if _, ok := table[name]; !ok {
			t.Errorf("domain.%s has no row in the table", name)
		}
	}
}

// domainErrors reads the names of all errors out of the domain's source: variables
// whose name begins with Err, and types with a method Error.
func domainErrors(t *testing.T) (names []string) {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), "../../domain", func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range packages["domain"].Files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.Name == "Error" && decl.Recv != nil {
					names = append(names, decl.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if value, ok := spec.(*ast.ValueSpec); ok && strings.HasPrefix(value.Names[0].Name, "Err") {
						names = append(names, value.Names[0].Name)
					}
				}
			}
		}
	}
	if len(names) < 6 {
		t.Fatalf("found only %v", names)
	}
	return names
}

func TestAnUnknownErrorTellsNothing(t *testing.T) {
	p := problem.From(errors.New("SELECT * FROM secrets"))
	if got, want := string(p.AppendJSON(nil)), `{"type":"about:blank","title":"Internal Server Error","status":500}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestProblemsAreValidJSONWhateverTheyQuote(t *testing.T) {
	for _, text := range []string{"", `"`, `\`, "</script><img src=x>", "\u2028", "\x7f", "é😀", "a\nb", "\xff"} {
		p := problem.RateLimitExceeded(&domain.RateLimitExceeded{Key: text, Policy: "p", Limit: domain.Unlimited, Window: window, RetryAfter: 1, Violated: []string{"p", "q"}})
		p.Instance = text
		p.Errors = []problem.Invalid{{Detail: text, Pointer: text, Parameter: text}, {Detail: "2"}}
		var got struct {
			Detail, Instance, Policy string
			Limit                    any
			Violated                 []string `json:"violated-policies"`
			Errors                   []struct{ Detail, Pointer, Parameter string }
		}
		written := p.AppendJSON(nil)
		if err := json.Unmarshal(written, &got); err != nil {
			t.Errorf("%q: %v: %s", text, err, written)
			continue
		}
		valid := strings.ToValidUTF8(text, "\uFFFD")
		if got.Instance != valid || got.Detail != "Rate limit of 9223372036854775807 requests per 60s exceeded for key '"+valid+"'." ||
			got.Limit != "unlimited" || len(got.Violated) != 2 || len(got.Errors) != 2 || got.Errors[0].Pointer != valid {
			t.Errorf("%q: %s", text, written)
		}
		if strings.ContainsAny(string(written), "<>&\u2028") {
			t.Errorf("%q is written as %s", text, written)
		}
	}
}

func TestAPolicyTellsOfItsAuditOnlyWhatIsNotTheDefault(t *testing.T) {
	schedule, err := domain.ParseSchedule("1m")
	if err != nil {
		t.Fatal(err)
	}
	for want, audit := range map[string]domain.Audit{
		``:                       {},
		`,"audit":{"log":"off"}`: {Log: domain.LogOff},
		`,"audit":{"log":"all","sample":0.000001}`:                               {Sample: domain.MinSample},
		`,"audit":{"log":"refused","sample":0.1,"keep":"30d","max_rows":100000}`: {Log: domain.LogRefused, Sample: 0.1, Keep: 720 * time.Hour, MaxRows: 100000},
	} {
		got := string(problem.AppendPolicy(nil, domain.Policy{Name: "p", Limit: 1, Schedule: schedule, Audit: audit}))
		if want = `{"name":"p","limit":1,"window":"fixed 1m"` + want + `}`; got != want {
			t.Errorf("%+v: %s, want %s", audit, got, want)
		}
	}
}

func TestHeadersHaveAnItemForEachPolicyThatHasALimit(t *testing.T) {
	day := domain.Window{Start: window.Start, End: window.Start.Add(24 * time.Hour)}
	d := domain.Decision{Allowed: true, At: window.Start.Add(10*time.Second + 1), Policies: []domain.PolicyDecision{
		{Policy: "burst", Limit: 100, Window: window, Tally: domain.Tally{Count: 50}},
		{Policy: "free", Limit: domain.Unlimited, Window: window, Tally: domain.Tally{Count: 50}},
		{Policy: "daily", Limit: 1000, Window: day, Tally: domain.Tally{Count: 1200, Refused: 201}},
	}}
	got := map[string]string{}
	problem.Headers(&d, func(name string, value []byte) {
		if _, twice := got[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		got[name] = string(value)
	})
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1767312000",
		"RateLimit-Policy": `"burst";q=100;w=60, "daily";q=1000;w=86400`, "RateLimit": `"burst";r=50;t=50, "daily";r=1;t=86390`,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}
