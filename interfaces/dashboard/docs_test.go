package dashboard_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/interfaces/dashboard"
)

// shown asks the pages as a browser does.
func shown(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	page := dashboard.Pages()[path]
	if page == nil {
		t.Fatalf("there is no %s", path)
	}
	recorder := httptest.NewRecorder()
	page.ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
	return recorder
}

func TestThePageOfTheAPILoadsNothingFromElsewhere(t *testing.T) {
	page := shown(t, "/docs").Body.String()
	loaded := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(loaded) < 4 {
		t.Fatalf("the page loads %v", loaded)
	}
	for _, match := range loaded {
		switch at := match[1]; {
		case at == "data:,", at == "openapi.yaml": // the server's
		default:
			if a := shown(t, "/"+at); a.Code != 200 || a.Body.Len() == 0 {
				t.Errorf("%s: %d", at, a.Code)
			}
		}
	}
	if found := regexp.MustCompile(`(?i)<style|style=|<script>|\son\w+=|//\w`).FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	for path := range dashboard.Pages() {
		text := shown(t, path).Body.String()
		switch {
		case strings.HasSuffix(path, ".css"):
			for _, match := range regexp.MustCompile(`(?i)@import|url\(\s*["']?([^"')]{0,30})`).FindAllStringSubmatch(text, -1) {
				if !strings.HasPrefix(match[1], "data:") {
					t.Errorf("%s loads %q", path, match[0])
				}
			}
		case path == "/docs/docs.js":
			for _, part := range []string{"url: 'openapi.yaml'", "validatorUrl: null"} {
				if !strings.Contains(text, part) {
					t.Errorf("%s has no %s", path, part)
				}
			}
		}
	}
}

func TestThePageOfTheAPIMayDoLittle(t *testing.T) {
	for path := range dashboard.Pages() {
		if !strings.HasPrefix(path, "/docs") {
			continue
		}
		policy := shown(t, path).Header().Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy+";", directive+";") {
				t.Errorf("%s: the policy %q has no %s", path, policy, directive)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy %q lets through too much", path, policy)
		}
	}
}

func TestWhatIsCopiedHasItsLicenceBesideIt(t *testing.T) {
	for path, word := range map[string]string{"/docs/swagger-ui/LICENSE.txt": "Apache License", "/docs/swagger-ui/NOTICE.txt": "swagger-ui", "/docs/swagger-ui/swagger-ui-bundle.js.LICENSE.txt": "MIT"} {
		if !strings.Contains(shown(t, path).Body.String(), word) {
			t.Errorf("%s does not say %q", path, word)
		}
	}
}
