package storetest_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain/storetest"
)

// brokenEnv names the broken store that the test binary is run with, once for each.
const brokenEnv = "STORETEST_BROKEN"

// The kit, run on the correct store, or on a broken one if the environment names it.
func TestKit(t *testing.T) {
	var wrong faults
	if name := os.Getenv(brokenEnv); name != "" {
		all := slices.Concat(brokenStores, brokenLogs)
		i := slices.IndexFunc(all, func(b broken) bool { return b.name == name })
		if i < 0 {
			t.Fatalf("there is no broken store %q", name)
		}
		wrong = all[i].faults
	}
	stores := map[string]*memory{} // by the first part of the test, so that they stay small
	storetest.Run(t, func(t *testing.T) storetest.Store {
		group := strings.Join(strings.SplitN(t.Name(), "/", 3)[:min(2, 1+strings.Count(t.Name(), "/"))], "/")
		if stores[group] == nil {
			stores[group] = newMemory(wrong)
		}
		return stores[group].open()
	})
}

// Each store that is broken on purpose is caught by the tests that should catch it.
// And each test of the kit catches one: a test that never fails guards nothing.
func TestKitCatchesEveryBrokenStore(t *testing.T) {
	if os.Getenv(brokenEnv) != "" {
		t.Skip("this process runs a broken store")
	}
	var mu sync.Mutex
	catches := map[string]string{} // test to a store that it catches
	t.Run("stores", func(t *testing.T) {
		for _, b := range slices.Concat(brokenStores, brokenLogs) {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				failed := caught(t, b)
				for _, test := range b.caught {
					if !slices.Contains(failed, test) {
						t.Errorf("%q does not catch it; these do: %q", test, failed)
					}
				}
				t.Logf("caught by %q", failed)
				mu.Lock()
				defer mu.Unlock()
				for _, test := range failed {
					catches[test] = b.name
				}
			})
		}
	})
	passed, ended := verdict(t, "--- PASS: ", "")
	if ended != nil {
		t.Errorf("the kit on the right store: %v", ended)
	}
	for _, test := range passed {
		if catches[test] == "" {
			t.Errorf("no broken store is caught by %q", test)
		}
	}
}

// tries is how often the kit is run on a broken store: that two get in each other's way
// shows in nearly every run, not in each.
const tries = 3

// caught are the tests that catch a broken store, in one of the tries.
func caught(t *testing.T, b broken) (failed []string) {
	t.Helper()
	missed := func(test string) bool { return !slices.Contains(failed, test) }
	for try := 0; try == 0 || try < tries && slices.ContainsFunc(b.caught, missed); try++ {
		tests, ended := verdict(t, "--- FAIL: ", b.name, b.caught...)
		if (ended == nil) != (len(tests) == 0) {
			t.Errorf("the kit failed at %q and ended with %v", tests, ended)
		}
		failed = append(failed, slices.DeleteFunc(tests, func(test string) bool { return !missed(test) })...)
	}
	return failed
}

// verdict runs the kit in a process of its own and returns the tests with a
// verdict, those of them that have no tests within, and how the process ended. To save
// time it runs only the groups of the tests that are in need, or all if none are.
func verdict(t *testing.T, verdict, broken string, need ...string) (tests []string, ended error) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, test := range need {
		group, _, _ := strings.Cut(test, "/")
		groups = append(groups, group)
	}
	command := exec.CommandContext(t.Context(), binary, "-test.run=^TestKit$/^("+strings.Join(groups, "|")+")", "-test.v", "-test.timeout=30s")
	command.Env = append(os.Environ(), brokenEnv+"="+broken)
	out, ended := command.CombinedOutput()
	if strings.Contains(string(out), "panic:") || strings.Contains(string(out), "fatal error:") {
		t.Fatalf("the kit did not come to its end:\n%s", out[max(len(out)-8000, 0):])
	}
	names := regexp.MustCompile(`(?m)^ *`+verdict+`TestKit/(.+) \(\d`).FindAllStringSubmatch(string(out), -1)
	for _, name := range names {
		if !slices.ContainsFunc(names, func(other []string) bool { return strings.HasPrefix(other[1], name[1]+"/") }) {
			tests = append(tests, strings.ReplaceAll(name[1], "_", " "))
		}
	}
	return tests, ended
}
