package ratelimitlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// schema1.db was written by the first version: alice was hit four times with a limit
// of three in windows of a hundred years, bob once with a cost of 5 and no limit, and
// carol was reset.
func TestADatabaseOfTheFirstVersionOpensWithItsCounts(t *testing.T) {
	old, err := os.ReadFile("infrastructure/gormstore/testdata/schema1.db")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "old.db")
	if err := os.WriteFile(file, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(c *ratelimitlog.Config) { c.DSN, c.Window = "sqlite:"+file, "36500d"; withTokens(c) })
	for key, want := range map[string]string{"alice": `"limit":3,"count":4,"refused":1,"remaining":0`, "bob": `"limit":3,"count":5,"refused":0`, "carol": `"count":0,"refused":0`} {
		if a := s.do(t, "GET", "/status?key="+key, ""); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s, want %s", key, a.body, want)
		}
	}
	if a := s.ping(t, "alice"); a.status != 429 {
		t.Errorf("alice: %d %s", a.status, a.body)
	}
	s.do(t, "PUT", "/v1/quotas?policy=default&key=alice", `{"limit":4}`).want(t, 200, `{"policy":"default","key":"alice","limit":4}`)
	if a := s.ping(t, "alice"); a.status != 200 {
		t.Errorf("alice with one more: %d %s", a.status, a.body)
	}
	var got []string
	for _, c := range callsOf(t, s, domain.CallQuery{Key: "alice", OldestFirst: true, Limit: 100}) {
		got = append(got, fmt.Sprintf("%s %v", c.Kind, c.Allowed))
	}
	if want := "hit true, hit true, hit true, hit false, hit false, quota_set true, hit true"; strings.Join(got, ", ") != want {
		t.Errorf("calls: %v, want %s", got, want)
	}
	s.stop()
	wantFaults(t, verify(t, ratelimitlog.Config{DSN: "sqlite:" + file, Now: s.clock.now})) // as far as that can be told of old calls
}
