package domain_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestAllSpellingsOfAPathAreOne(t *testing.T) { // case 56
	for path, want := range map[string]string{
		"/ping": "/ping", "/PING": "/ping", "/ping/": "/ping", "//ping": "/ping", "/ping//": "/ping", "/ping?x=1": "/ping", "/ping/?x=/y": "/ping",
		"/%70ing": "/ping", "/%70%69%6E%67": "/ping", "/%2570ing": "/ping", "/%252570ing": "/ping", "/./ping": "/ping", "/ping/.": "/ping",
		"/a/../ping": "/ping", "/../ping": "/ping", "/..;/ping": "/ping", "/ping;v=1": "/ping", "/ping;v=1/": "/ping", "/%2e/ping": "/ping", "/%2Fping": "/ping",
		`\ping`: "/ping", `/a\..\ping`: "/ping", "/ping%3Fx": "/ping", "/ping%23": "/ping", "ping": "/ping", "": "/", "/": "/", "//": "/", "/.": "/", "?": "/",
		"/a/b": "/a/b", "/a%2Fb": "/a/b", "/a/%zz": "/a/%zz", "/%": "/%", "/a%4": "/a%4", "/É": "/é", "/%C3%89": "/é", "/user_1-x": "/user_1-x",
	} {
		if got := domain.CanonicalPath(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

func TestACanonicalPathStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`[/.%;?\\a-fA-F0-9 *é]{0,20}`).Draw(t, "path")
		once := domain.CanonicalPath(path)
		if again := domain.CanonicalPath(once); again != once && once[0] == '/' {
			t.Fatalf("%q is %q, and that is %q", path, once, again)
		}
	})
}

// Decoding level by level would take hours here.
func TestNestedEscapesAreDecodedInOnePass(t *testing.T) {
	if got := domain.CanonicalPath("/%" + strings.Repeat("25", 1<<20) + "70ing"); got != "/ping" {
		t.Errorf("a path of %d bytes, want /ping", len(got))
	}
}
