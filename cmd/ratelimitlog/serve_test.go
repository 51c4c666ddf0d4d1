package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboardOf reads what serve prints until it tells where the dashboard is.
func dashboardOf(t *testing.T, s *server) (address, printed string) {
	t.Helper()
	for {
		line, err := s.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("serve printed %q and no address: %v", printed, err)
		}
		printed += line
		if address, ok := strings.CutPrefix(line, "dashboard: "); ok {
			return strings.TrimSuffix(address, "\n"), printed
		}
	}
}

func TestServeDevPrintsAnAddressThatOpensTheDashboard(t *testing.T) {
	s := startServer(t, filepath.Join(t.TempDir(), "test.db"), "--dev")
	address, printed := dashboardOf(t, s)
	found := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/dashboard#token=([A-Z2-7]{26})$`).FindStringSubmatch(address)
	if found == nil || found[1] != s.url || !strings.Contains(printed, "admin token of this run: "+found[2]) {
		t.Fatalf("serve printed %q, it listens on %s", printed, s.url)
	}
	for target, token := range map[string]string{"/dashboard": "", "/v1/calls": found[2], "/v1/usage": found[2], "/v1/quotas?policy=default": found[2]} {
		r, err := http.NewRequest("GET", s.url+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Errorf("%s: %d", target, response.StatusCode)
		}
	}
}

func TestServeDevPrintsNoTokenThatSomebodyChose(t *testing.T) {
	s := startServer(t, filepath.Join(t.TempDir(), "test.db"), "--dev", "--admin-token=ch0sen")
	address, printed := dashboardOf(t, s)
	if address != s.url+"/dashboard" || strings.Contains(printed, "ch0sen") {
		t.Errorf("serve printed %q, it listens on %s", printed, s.url)
	}
}

func TestTheDashboardsAddressIsOneThatABrowserCanOpen(t *testing.T) {
	s := startServerOn(t, "--dsn=sqlite::memory:", "--dev", "--addr=0.0.0.0:0")
	if address, _ := dashboardOf(t, s); !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("the address is %s", address)
	}
}
