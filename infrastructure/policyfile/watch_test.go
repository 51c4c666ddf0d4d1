package policyfile_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
)

func TestWatchSeesEveryWayAFileChanges(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policies.yaml")
	write := func(path, limit string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("policies: {a: {limit: "+limit+", window: 1m}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	type told struct {
		policies []domain.Policy
		err      error
	}
	tell := make(chan told)
	write(file, "1")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		policyfile.Watch(ctx, file, time.Millisecond, func(rules domain.Rules, err error) {
			select {
			case tell <- told{rules.Policies, err}:
			case <-ctx.Done():
			}
		})
	}()
	wantLimit := func(how string, limit int64) {
		t.Helper()
		// A file that is written in place may be seen half-written first.
		for deadline := time.After(10 * time.Second); ; {
			select {
			case got := <-tell:
				if got.err == nil && got.policies[0].Limit == limit {
					return
				}
			case <-deadline:
				t.Fatalf("%s: the limit of %d was not seen", how, limit)
			}
		}
	}
	wantError := func(how string) {
		t.Helper()
		for deadline := time.After(10 * time.Second); ; {
			select {
			case got := <-tell:
				if got.err != nil && got.policies == nil {
					return
				}
			case <-deadline:
				t.Fatalf("%s: no error was told", how)
			}
		}
	}
	wantLimit("at the start", 1)
	write(file, "2")
	wantLimit("written in place", 2)
	write(filepath.Join(dir, "new"), "3")
	must(os.Rename(filepath.Join(dir, "new"), file))
	wantLimit("renamed over", 3)
	must(os.Remove(file))
	wantError("removed")
	write(filepath.Join(dir, "v4"), "4")
	must(os.Symlink("v4", file))
	wantLimit("a symbolic link", 4)
	write(filepath.Join(dir, "v5"), "5")
	must(os.Symlink("v5", filepath.Join(dir, "link")))
	must(os.Rename(filepath.Join(dir, "link"), file))
	wantLimit("a link that points elsewhere", 5)
	write(filepath.Join(dir, "wrong"), "x")
	must(os.Rename(filepath.Join(dir, "wrong"), file)) // at once, so that there is one state to be told of
	wantError("a wrong limit")
	select { // it is told once
	case again := <-tell:
		t.Errorf("told again: %+v", again)
	case <-time.After(50 * time.Millisecond):
	}
	write(file, "6")
	wantLimit("mended", 6)
	cancel()
	<-ended
}
