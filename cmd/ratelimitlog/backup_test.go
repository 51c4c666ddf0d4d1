package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestABackupUnderLoadIsWholeAndVerifies(t *testing.T) {
	c := newCommand(t)
	s := startServer(t, "live.db", "--limit=200", long)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var a answers
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		load(ctx, &a, 16, 1<<30, func(client, n int) string { return fmt.Sprint(client, "-", n/400) }, s.url)
	}()
	seen := func() (allowed int64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, byStatus := range a.count {
			allowed += byStatus[200]
		}
		return allowed
	}
	for deadline := time.Now().Add(30 * time.Second); seen() < 5000; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the load does not get on")
		}
	}
	first := seen()
	for i := range 3 {
		copied := fmt.Sprintf("copy-%d.db", i)
		before := seen()
		c.want(0, []string{"backup", copied, "--dsn=sqlite:live.db"}, copied+": ", " bytes in ")
		wantVerified(t, "--dsn=sqlite:"+copied)
		if got := query[string](t, copied, `PRAGMA integrity_check`); got != "ok" {
			t.Errorf("integrity check: %s", got)
		}
		// What was answered before the backup began is in it.
		if used := query[int64](t, copied, `SELECT sum(count - refused) FROM rate_limit_windows`); used < before {
			t.Errorf("%d were answered before backup %d, it has %d", before, i, used)
		}
	}
	if seen() == first {
		t.Error("nothing was answered meanwhile")
	}
	stop()
	<-loaded
	if status := s.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}

	// Restored it is a database like any other: counts go on from where they were.
	used := query[int64](t, "copy-0.db", `SELECT sum(count - refused) FROM rate_limit_windows`)
	restored := startServer(t, "copy-0.db", "--limit=200", long)
	var more answers
	load(t.Context(), &more, 1, 100, func(int, int) string { return "new" }, restored.url)
	restored.end(t, syscall.SIGTERM)
	if got := query[int64](t, "copy-0.db", `SELECT sum(count - refused) FROM rate_limit_windows`); got != used+100 {
		t.Errorf("100 hits on a restored file with %d: %d", used, got)
	}
	wantVerified(t, "--dsn=sqlite:copy-0.db")
}

func TestACopyOfTheFileAloneLacksWhatTheWriteAheadLogHas(t *testing.T) {
	c := newCommand(t)
	s := startServer(t, "live.db", long)
	var a answers
	load(t.Context(), &a, 1, 10, func(int, int) string { return "k" }, s.url)
	text, err := os.ReadFile("live.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("cp.db", text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(0, []string{"backup", "whole.db", "--dsn=sqlite:live.db"})
	count := func(file string) int64 {
		return query[int64](t, file, `SELECT count(*) FROM sqlite_schema WHERE name = 'rate_limit_windows'`)
	}
	if count("whole.db") != 1 {
		t.Error("the backup has no windows")
	}
	if count("cp.db") == 1 && query[int64](t, "cp.db", `SELECT coalesce(sum(count), 0) FROM rate_limit_windows`) == 10 {
		t.Error("the copy of the file alone has all hits: docs/operations.md says it does not")
	}
	if got := query[int64](t, "whole.db", `SELECT sum(count) FROM rate_limit_windows`); got != 10 {
		t.Errorf("the backup has %d of 10 hits", got)
	}
	s.end(t, syscall.SIGTERM)
}

func TestABackupOverwritesNothingAndLeavesNothingHalfMade(t *testing.T) {
	c := newCommand(t)
	c.want(0, []string{"hit", "alice"})
	if err := os.Chmod("ratelimitlog.db", 0o600); err != nil {
		t.Fatal(err)
	}
	var made struct {
		File  string
		Bytes int64
	}
	decode(t, c.want(0, []string{"backup", "a ?b%.db", "--json"}), &made)
	info, err := os.Stat("a ?b%.db")
	if err != nil || made.File != "a ?b%.db" || made.Bytes != info.Size() || info.Mode().Perm() != 0o600 {
		t.Errorf("made %+v, %v, %v", made, info, err)
	}
	for _, taken := range []string{"taken", "half.db.partial"} {
		if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.want(2, []string{"backup", "taken"}, "exists already")
	c.want(2, []string{"backup", "half.db"}, "half.db.partial, which exists already")
	c.want(2, []string{"backup", "ratelimitlog.db"}, "exists already")
	c.want(1, []string{"backup", "none/x.db"}, "no such file")
	c.want(1, []string{"backup", "x.db", "--dsn=sqlite:none.db"}, "no such database")
	c.want(2, []string{"backup", "x.db", "--dsn=sqlite::memory:"}, "in memory")
	c.want(2, []string{"backup", "x.db", "--dsn=postgres://127.0.0.1/x"}, "pg_dump")
	c.want(0, []string{"backup", "log.db", "--dsn=redis://127.0.0.1:1", "--audit-dsn=sqlite:ratelimitlog.db"})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	var out, errs strings.Builder
	if status := run(stopped, []string{"backup", "stopped.db"}, &out, &errs); status != 1 {
		t.Errorf("interrupted: exit status %d: %s%s", status, &out, &errs)
	}
	for _, taken := range []string{"taken", "half.db.partial"} {
		if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
			t.Errorf("%s has become %q, %v", taken, text, err)
		}
	}
	for _, name := range []string{"x.db", "stopped.db", "half.db", "x.db.partial", "stopped.db.partial", "taken.partial"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob("*-journal"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
