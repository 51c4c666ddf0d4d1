package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// taken are the paths of the routes that a GET of path takes.
func taken(t testing.TB, r *domain.Routes, path string) (paths []string) {
	t.Helper()
	found, err := r.Match("GET", path)
	if err != nil {
		t.Fatalf("%q: %v", path, err)
	}
	for _, route := range found {
		paths = append(paths, route.Path)
	}
	return paths
}

func TestNoSpellingOfAPathGetsAroundItsRoute(t *testing.T) { // case 56
	ping := routes(t, domain.Route{Path: "/ping"})
	for _, path := range []string{
		"/ping", "/PING", "/ping/", "//ping", "/ping//", "/ping?x=1", "/ping/?x=/y", "/ping#x", "ping",
		"/%70ing", "/%70%69%6E%67", "/%2570ing", "/%252570ing", "/./ping", "/ping/.", "/a/../ping", "/../ping", "/..;/ping",
		"/ping;v=1", "/ping;v=1/", "/%2e/ping", "/%2Fping", `\ping`, `/a\..\ping`, "/x%3f/../ping", "/x%23/../ping", "/x;/../ping", "/a%2f..%2fping",
		"/a/%5c..%5c../ping", "/ping%2f", "/ping%3bx", "/%2e%2e%3b/ping",
	} {
		if got := taken(t, ping, path); !slices.Contains(got, "/ping") {
			t.Errorf("%q takes %v", path, got)
		}
	}
	for _, path := range []string{"/", "", "/pin", "/pingx", "/ping/x", "/x/ping", "/%zz", "/%", "/ping%4"} {
		if got := taken(t, ping, path); len(got) > 0 {
			t.Errorf("%q takes %v", path, got)
		}
	}
}

// A server that decodes late, or resolves no dots, or knows no parameters, routes
// these to the handlers of /api: all readings count.
func TestEveryReadingOfAPathCounts(t *testing.T) {
	r := routes(t, domain.Route{Path: "/login"}, domain.Route{Path: "/api/*"}, domain.Route{Path: "/files/*/meta"})
	for path, want := range map[string][]string{
		"/api/a%2f..%2f..%2flogin":        {"/login", "/api/*"},
		"/api/../login":                   {"/login", "/api/*"},
		"/api/..;/login":                  {"/login", "/api/*"},
		"/api/%2e%2e/x":                   {"/api/*"},
		"/x/%2e%2e/api/..;a":              {"/api/*"},
		`/api/a\..\..`:                    {"/api/*"},
		"/files/a%2fb/meta":               {"/files/*/meta"},
		"/files/..%2f..%2flogin%2f/meta":  {"/files/*/meta"},
		"/files/x/meta/../../../api/y":    {"/api/*"},
		"/login/..;/..;/login;x":          {"/login"},
		"/nothing/../%2e%2e/..;/%5c/what": nil,
	} {
		got := taken(t, r, path)
		for _, route := range want {
			if !slices.Contains(got, route) {
				t.Errorf("%q takes %v, want %v", path, got, want)
			}
		}
		if want == nil && got != nil {
			t.Errorf("%q takes %v", path, got)
		}
	}
	if got := taken(t, routes(t, domain.Route{Path: "/users/me"}, domain.Route{Path: "/*"}), "/users%2Fme"); len(got) != 2 {
		t.Errorf("/users%%2Fme takes %v, want both", got)
	}
	if got := taken(t, r, "/api/../login"); got[0] != "/login" {
		t.Errorf("the most lenient reading does not come first: %v", got)
	}
}

// Whatever a path is, the readings of it do not depend on how often it is escaped.
func TestEscapingAPathOnceMoreChangesNothing(t *testing.T) {
	r := routes(t, domain.Route{Path: "*"}, domain.Route{Path: "/a/*"}, domain.Route{Path: "/a/b"}, domain.Route{Path: "/*/b"})
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.StringMatching(`/[/.;\\abAB]{0,12}`).Draw(rt, "path")
		escaped := ""
		for _, c := range []byte(path) {
			if c == '/' || rapid.Bool().Draw(rt, "plain") {
				escaped += string(rune(c))
			} else {
				escaped += fmt.Sprintf(rapid.SampledFrom([]string{"%%%02x", "%%%02X", "%%25%02x"}).Draw(rt, "escape"), c)
			}
		}
		if got, want := taken(t, r, escaped), taken(t, r, path); !slices.Equal(got, want) {
			rt.Fatalf("%q takes %v, %q takes %v", escaped, got, path, want)
		}
	})
}

func TestAPathTooLongToBeReadInAllWaysIsRefused(t *testing.T) {
	r := routes(t, domain.Route{Path: "/ping"}, domain.Route{Path: "/long/*"})
	_, err := r.Match("GET", "/"+strings.Repeat("a/../", 1000)+"ping")
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "path" {
		t.Errorf("err = %v", err)
	}
	if got := taken(t, r, "/long/"+strings.Repeat("file.tar.gz/", 1000)); !slices.Equal(got, []string{"/long/*"}) {
		t.Errorf("a long path that has one reading takes %v", got)
	}
	// Decoding level by level would take hours here.
	if got := taken(t, r, "/%"+strings.Repeat("25", 1<<20)+"70ing"); !slices.Equal(got, []string{"/ping"}) {
		t.Errorf("nested escapes take %v", got)
	}
}
