package ratelimitlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestUsageAndExplainSayWhatTheyMayLack(t *testing.T) {
	s := servePoliciesWith(t, `policies:
  default: {limit: 5, window: 1m, audit: {keep: 1h}}
  quiet: {limit: 5, window: 1m, audit: {log: off}}
  kept: {limit: 5, window: 1m}
`, func(c *ratelimitlog.Config) { withTokens(c); c.PruneEvery = time.Millisecond })
	for range 3 {
		s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["default","quiet","kept"]}`)
	}
	eventually(t, "the policies are in the log", func() bool {
		return len(callsOf(t, s, domain.CallQuery{Kinds: []domain.CallKind{domain.CallPolicySet}, Limit: 10})) == 3
	})
	s.clock.advance(time.Second)
	want := func(policy string, allowed, partial string) {
		t.Helper()
		a := s.do(t, "GET", "/v1/usage?by=policy&policy="+policy, "")
		if !strings.Contains(a.body, `"partial":`+partial) || !strings.Contains(a.body, `"allowed":`+allowed+",") {
			t.Errorf("%s: %s, want allowed %s and partial %s", policy, a.body, allowed, partial)
		}
		a = s.do(t, "GET", "/v1/explain?key=k&at=2026-01-01T00:00:11Z&policy="+policy, "")
		if !strings.Contains(a.body, `"partial":`+partial) || strings.Contains(a.body, "The log does not have all hits") != (partial == "true") {
			t.Errorf("%s: %s, want partial %s", policy, a.body, partial)
		}
	}
	want("default", "3", "false")
	want("quiet", "0", "true")
	want("kept", "3", "false")
	s.clock.advance(2 * time.Hour)
	eventually(t, "what is old is pruned", func() bool {
		return len(callsOf(t, s, domain.CallQuery{Policy: "default", Kinds: []domain.CallKind{domain.CallHit}, Limit: 10})) == 0
	})
	want("default", "0", "true")
	want("kept", "3", "false")
}

// Who reads "refused" is told where it refused nobody, also when that has changed since.
func TestUsageNamesThePoliciesThatWereInShadow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(shadow bool) {
		t.Helper()
		text := fmt.Sprintf("policies: {default: {limit: 5, window: 1m}, tight: {limit: 1, window: 1m, shadow: %t}, tried: {limit: 1, window: 1m, shadow: true}}\n", shadow)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(true)
	s := serve(t, func(c *ratelimitlog.Config) { withTokens(c); c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
	s.rulesLogged(t, 3)
	for range 3 {
		s.do(t, "POST", "/v1/hits", `{"key":"k","policies":["default","tight"]}`)
	}
	s.clock.advance(time.Hour)
	write(false)
	s.rulesLogged(t, 4)
	s.clock.advance(time.Hour)
	for query, want := range map[string]string{
		"by=policy":                                                   `["tight","tried"]`,
		"by=key&policy=tight":                                         `["tight"]`,
		"by=minute&policy=default":                                    `[]`,
		"by=policy&from=2026-01-01T01:30:00Z":                         `["tried"]`, // live before that
		"by=policy&policy=tight&from=2026-01-01T01:30:00Z":            `[]`,
		"by=policy&policy=tight&from=2026-01-01T00:30:00Z":            `["tight"]`, // live since 01:00
		"by=policy&from=2025-12-31T00:00:00Z&to=2025-12-31T01:00:00Z": `[]`,        // before there were any
	} {
		if a := s.do(t, "GET", "/v1/usage?"+query, ""); !strings.Contains(a.body, `"shadow":`+want+`,`) {
			t.Errorf("%s: %s, want shadow %s", query, a.body, want)
		}
	}
}
