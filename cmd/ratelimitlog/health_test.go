package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHealthSaysWhetherTheServerIsReady(t *testing.T) {
	c := newCommand(t)
	s := startServer(t, "test.db")
	addr := strings.TrimPrefix(s.url, "http://")
	_, port, _ := net.SplitHostPort(addr)
	c.want(0, []string{"health", s.url}, "ready: "+s.url+"/readyz")
	c.want(0, []string{"health", s.url + "/healthz"}, "ready: "+s.url+"/healthz")
	c.want(0, []string{"health", "--addr=" + addr})
	for _, everywhere := range []string{"0.0.0.0:", ":"} { // what serve may be told
		c.want(0, []string{"health", "--addr=" + everywhere + port})
	}
	var ready map[string]string // as GET /readyz
	decode(t, c.want(0, []string{"health", s.url, "--json"}), &ready)
	if ready["status"] != "ready" || ready["revision"] == "" {
		t.Errorf("--json: %v", ready)
	}
	t.Setenv("RATELIMITLOG_ADDR", addr) // one variable for serve and for its health
	c.want(0, []string{"health"}, addr)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c.want(0, []string{"health", "--addr=0.0.0.0:" + port})

	if status := s.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}
	c.want(1, []string{"health", "--json"}, "not ready: ")
}

func TestHealthIsBadUnlessTheAnswerIs200InTime(t *testing.T) {
	c := newCommand(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			http.Error(w, "the store is down", http.StatusServiceUnavailable)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/ok":
			fmt.Fprint(w, "<p>fine</p>")
		case "/slow":
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	c.want(1, []string{"health", server.URL}, "503", "the store is down")
	c.want(1, []string{"health", server.URL + "/moved"}, "302")
	if got := c.want(0, []string{"health", server.URL + "/ok", "--json"}); got != `{"status":"ready"}`+"\n" {
		t.Errorf("of a page that is no JSON: %s", got)
	}
	begun := time.Now()
	c.want(1, []string{"health", server.URL + "/slow", "--timeout=50ms"}, "deadline exceeded")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("gave up after %s", took)
	}
	for _, args := range [][]string{{"ftp://x"}, {"http://"}, {"127.0.0.1:8080"}, {"http://x:y"}, {"--timeout=0s"}, {"--addr="}} {
		c.want(2, append([]string{"health"}, args...))
	}
}
