package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// logCalls logs calls in the file, whose keys are the numbers from 1 to n.
func logCalls(t *testing.T, n int, change func(*domain.Call)) {
	t.Helper()
	store, err := gormstore.Open(context.Background(), "sqlite:ratelimitlog.db", gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	calls := make([]domain.Call, n)
	for i := range calls {
		calls[i] = domain.Call{
			Kind: domain.CallHit, At: time.Now().Add(-time.Hour), Policy: "p", Key: fmt.Sprint(i + 1), Cost: 1, Hits: 1, Allowed: true, Count: 1,
			Limit: 3, WindowStart: time.Unix(1767225600, 0), Schedule: "fixed 1m", Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "r"},
		}
		if change != nil {
			change(&calls[i])
		}
	}
	if err := store.Append(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
}

// keysOf are the keys of calls that were printed as CSV.
func keysOf(t *testing.T, text string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 || rows[0][4] != "key" {
		t.Fatalf("%.200q, %v", text, err)
	}
	var keys []string
	for _, row := range rows[1:] {
		keys = append(keys, row[4])
	}
	return strings.Join(keys, " ")
}

func TestCallsAreFoundByWhatTheyTell(t *testing.T) {
	c := newCommand(t)
	logCalls(t, 6, func(call *domain.Call) {
		switch call.Key {
		case "2":
			call.Allowed = false
		case "3":
			call.Path, call.RequestID = "/other", "s"
		case "4":
			call.At = time.Now().Add(-50 * time.Hour)
		case "5":
			call.Kind, call.Policy, call.Actor = domain.CallPolicySet, "q", "config p.yaml\x1b[31m"
		case "6":
			call.Kind = domain.CallPolicyRemoved
		}
	})
	for args, want := range map[string]string{
		"": "6 5 4 3 2 1", "--order=asc": "1 2 3 4 5 6", "-n 2": "6 5", "-n 2 --order=asc": "1 2", "-n 0": "6 5 4 3 2 1", "--key=2": "2", "--policy=q": "5",
		"--outcome=refused": "2", "--outcome=allowed": "4 3 1", "--path=/other": "3", "--request-id=s": "3", "--kind=policy_set,policy_removed": "6 5", "--kind=reset": "",
		"--from=2h": "6 5 3 2 1", "--to=2h": "4", "--from=3d --to=2d": "4", "--from=1m": "", "--to=2000-01-01T00:00:00Z": "",
	} {
		if got := keysOf(t, c.want(0, append([]string{"calls", "--csv"}, strings.Fields(args)...))); got != want {
			t.Errorf("calls %s shows %q, want %q", args, got, want)
		}
	}
	c.want(0, []string{"calls"}, "policy set", "policy removed", `GET /ping r by "config p.yaml\x1b[31m"`)
	for _, args := range []string{"--from=yesterday", "--from=1h --to=2h", "--kind=hits", "--order=up", "--follow --order=desc", "--csv --json", "--key=a\x00", "--outcome=maybe", "--policy=:", "-n -1"} {
		c.want(2, append([]string{"calls"}, strings.Fields(args)...))
	}
}

func TestALongLogIsPrintedWhole(t *testing.T) {
	c := newCommand(t)
	logCalls(t, 2500, nil)
	for _, form := range []string{"--json", "--csv", ""} {
		head := map[bool]int{true: 0, false: 1}[form == "--json"]
		for n, want := range map[int]int{0: 2500, 1000: 1000, 1500: 1500, 2500: 2500, 3000: 2500} {
			args := append([]string{"calls", fmt.Sprintf("-n%d", n)}, strings.Fields(form)...)
			if got := strings.Count(c.want(0, args), "\n"); got != want+head {
				t.Errorf("%q prints %d lines, want %d", args, got, want+head)
			}
		}
	}
}

func TestAnEmptyLogHasAHead(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"migrate"})
	c.want(0, []string{"calls"}, "CALLED AT")
	c.want(0, []string{"calls", "--csv"}, "id,called_at,")
	if got := c.want(0, []string{"calls", "--json"}); got != "" {
		t.Errorf("JSON of an empty log: %q", got)
	}
}

// Following prints each call once, and an interrupt ends it well.
func TestFollowingMissesAndRepeatsNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, dsn := range map[string]func(*testing.T) string{
		"SQLite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") }, "PostgreSQL": func(t *testing.T) string { return servicetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			config := ratelimitlog.Config{DSN: dsn(t), Limit: "unlimited", Window: "1d", Migrate: true, LogTo: io.Discard, StoreTimeout: 20 * time.Second}
			limiter, stop, err := ratelimitlog.NewLimiter(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			hit := func(from, to int) {
				var group sync.WaitGroup
				for i := from; i < to; i++ {
					group.Go(func() {
						if _, err := limiter.Hit(t.Context(), domain.Hit{Key: fmt.Sprint(i), Policies: []string{"default"}, Cost: 1}); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
			}
			hit(0, 10)
			var out buffer
			cmd := exec.Command(self, "calls", "--follow", "-n3", "--csv", "--dsn="+config.DSN)
			cmd.Env = append(os.Environ(), "RATELIMITLOG_TEST_AS_PROGRAM=1")
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			out.await(t, 4)
			for i := 10; i < 110; i += 10 {
				hit(i, i+10)
				time.Sleep(20 * time.Millisecond) // so that it reads in the midst of it
			}
			text := out.await(t, 104)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("an interrupt ends it with %v", err)
			}
			rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows[1:] {
				if want := fmt.Sprint(8 + i); row[0] != want {
					t.Fatalf("line %d has call %s, want %s", i, row[0], want)
				}
			}
		})
	}
}

// buffer collects what a process prints.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// await waits until there are so many lines.
func (b *buffer) await(t *testing.T, lines int) string {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		text := b.text.String()
		b.mu.Unlock()
		if strings.Count(text, "\n") >= lines {
			return text
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%d lines never come: %s", lines, text)
		}
	}
}
