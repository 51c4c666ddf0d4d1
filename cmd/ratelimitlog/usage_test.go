package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestUsageAddsUpTheLog(t *testing.T) {
	c := newCommand(t)
	t.Setenv("LC_ALL", "en_US.UTF-8")
	t.Setenv("COLUMNS", "60")
	for range 3 {
		c.want(0, []string{"hit", "alice", "--limit=3", long})
	}
	c.want(3, []string{"hit", "alice", "--limit=3", long})
	c.want(0, []string{"hit", "b\u202e", "--limit=3", long})
	out := c.want(0, []string{"usage"}, "KEY", "█ allowed ░ refused", "2 groups, 4 allowed, 1 refused", `"b\u202e"`)
	lines := strings.Split(out, "\n")
	if strings.Contains(out, "\u202e") || !strings.HasPrefix(lines[1], "alice ") || !strings.HasSuffix(lines[1], "  "+strings.Repeat("█", 23)+strings.Repeat("░", 7)) || len([]rune(lines[1])) > 60 {
		t.Errorf("%s", out)
	}
	var usage struct {
		By      string
		Groups  int
		Allowed int64
		Usage   []struct{ Policy string }
	}
	decode(t, c.want(0, []string{"usage", "--by=policy", "--from=1h", "--json", "--key=alice"}), &usage)
	if usage.By != "policy" || usage.Groups != 1 || usage.Allowed != 3 || len(usage.Usage) != 1 || usage.Usage[0].Policy != "default" {
		t.Errorf("%+v", usage)
	}
	c.want(0, []string{"usage", "--by=day", "--zone=Asia/Kolkata"}, "DAY", "+05:30: 1 group,")
	for _, args := range [][]string{
		{"--by=week"}, {"--zone=Mars", "--by=day"}, {"--zone=UTC"}, {"--top=3", "--by=hour"}, {"--to=0001-01-01T00:00:00Z"}, {"--zone="}, {"--top=0"}, {"--top=1001"}, {"--from=yesterday"}, {"--from=2099-01-01T00:00:00Z"}, {"--key=a\x01"},
	} {
		c.want(2, append([]string{"usage"}, args...))
	}
}

func TestBarsTellAllowedAndRefusedApartInAnyTerminal(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	usage := domain.Usage{
		By: domain.UsageByKey, From: start, To: start.Add(time.Hour), Zone: time.UTC, Groups: 5, Allowed: math.MaxInt64, Refused: math.MaxInt64, Partial: true, Shadow: []string{"a", "b"},
		Top: []domain.UsageGroup{
			{Name: "most", Allowed: math.MaxInt64, Refused: math.MaxInt64}, {Name: "few", Allowed: 1, Refused: 1}, {Name: "none"}, {Name: "\u00e9", Refused: math.MaxInt64},
		},
	}
	draw := func(env map[string]string) string {
		var out strings.Builder
		if err := newBars(func(name string) string { return env[name] }).print(&out, &usage); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"UTF-8": {map[string]string{"LANG": "de_DE.utf8", "COLUMNS": "66"}, `KEY   ALLOWED              REFUSED              █ allowed ░ refused
most  9223372036854775807  9223372036854775807  █████████░░░░░░░░░
few   1                    1                    █░
none  0                    0                    ` + `
é     0                    9223372036854775807  ░░░░░░░░░
`},
		"plain": {map[string]string{"LC_ALL": "C", "LANG": "de_DE.UTF-8", "COLUMNS": "1"}, `KEY       ALLOWED              REFUSED              # allowed - refused
most      9223372036854775807  9223372036854775807  #####-----
few       1                    1                    #-
none      0                    0                    ` + `
"\u00e9"  0                    9223372036854775807  -----
`},
	} {
		var trimmed []string
		for line := range strings.Lines(draw(c.env)) {
			trimmed = append(trimmed, line)
		}
		got := strings.Join(trimmed[:5], "")
		want := c.want
		if align(got) != align(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if !strings.HasSuffix(draw(c.env), "4 of 5 groups, 9223372036854775807 allowed, 9223372036854775807 refused in all\nThe log does not have all hits.\nIn shadow, so that what it refused may have passed: a, b.\n") {
			t.Errorf("%s:\n%s", name, draw(c.env))
		}
	}
	usage = domain.Usage{By: domain.UsageByHour, Zone: berlin(t), Top: []domain.UsageGroup{
		{Window: domain.Window{Start: time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)}, Allowed: 1}, {Window: domain.Window{Start: time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)}, Allowed: 1},
	}}
	if got := draw(nil); !strings.Contains(got, "\n2026-10-25T02:00+02:00 ") || !strings.Contains(got, "\n2026-10-25T02:00+01:00 ") {
		t.Errorf("hours:\n%s", got)
	}
}

// align takes the width of columns out of a table.
func align(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := domain.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestExplainSaysWhyInWords(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"hit", "alice", "--limit=1", long})
	c.want(3, []string{"hit", "alice", "--limit=1", long})
	c.want(0, []string{"explain", "alice", "--limit=1", long}, "alice was refused at ", " by policy default: 1 of 1 units of the window 1970-01-01 00:00:00 to ",
		"It is call 2 of the log, CLI hit.", "\nBy path was used: 1 unit hit.\n", "if nobody else asks.\n")
	var told map[string]any
	decode(t, c.want(0, []string{"explain", "alice", "--limit=1", long, "--json"}), &told)
	if told["key"] != "alice" || told["used"] != 1.0 || !strings.HasPrefix(fmt.Sprint(told["text"]), "alice was refused") {
		t.Errorf("%v", told)
	}
	c.want(0, []string{"explain", "alice"}, "\nThe log does not say what is in force now. By the settings here it is 60 per fixed 1m.\n")
	c.want(0, []string{"explain", "bob", "--at=1h"}, "The log has no hit of bob under policy default within a second of ")
	ago := time.Now().Add(-time.Hour)
	logCalls(t, 1, func(call *domain.Call) { call.At, call.Allowed, call.Key = ago, false, "carol" })
	for _, at := range []string{ago.Format("15:04"), ago.Format("15:04:05"), ago.UTC().Format("2006-01-02T15:04Z")} {
		c.want(0, []string{"explain", "carol", "--at", at}, "carol was refused at "+ago.UTC().Format("2006-01-02T15:04:05"), " by policy p: ", "\nThe log does not say whether the policy is in force now.\n")
	}
	c.want(0, []string{"explain", "carol"}, "carol was refused at "+ago.UTC().Format("2006-01-02T15:04:05")) // the last time
	c.want(0, []string{"explain", "carol", "--at=0s"}, "The log has no hit of carol under policy p within a second of ", "\nThe nearest refusal before that was at "+ago.UTC().Format("2006-01-02T15:04:05"))
	for _, args := range [][]string{{"a\x01"}, {"alice", "--policy=nope"}, {"alice", "--at=then"}, {"alice", "--at=1969-12-31T23:59Z"}, {"alice", "--at=2099-01-01T00:00:00Z"}} {
		c.want(2, append([]string{"explain"}, args...))
	}
}
