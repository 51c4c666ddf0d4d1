package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testWindowLister(t *testing.T, store, other domain.Counter) {
	lister := store.(domain.WindowLister)
	// list is the windows of policies that begin with prefix, in pages of size.
	list := func(t *testing.T, prefix string, size int, between ...func()) (seen []domain.LedgerWindow) {
		t.Helper()
		after := domain.LedgerWindow{Policy: prefix}
		for {
			page, err := lister.Windows(context.Background(), after, size)
			if err != nil {
				t.Errorf("Windows: %v", err)
			}
			if len(page) > size {
				t.Errorf("%d windows were returned, asked for %d", len(page), size)
			}
			for _, w := range page {
				if w.ID().Compare(after.ID()) <= 0 {
					t.Errorf("%+v follows %+v", w.ID(), after.ID())
					return seen
				}
				if after = w; !strings.HasPrefix(w.Policy, prefix) {
					return seen
				}
				if w.Tally.Count > 0 {
					seen = append(seen, w)
				}
			}
			if len(page) < size {
				return seen
			}
			for _, f := range between {
				f()
			}
		}
	}
	want := func(t *testing.T, got []domain.LedgerWindow, want ...domain.LedgerWindow) {
		t.Helper()
		slices.SortFunc(want, func(a, b domain.LedgerWindow) int { return a.ID().Compare(b.ID()) })
		same := slices.EqualFunc(got, want, func(a, b domain.LedgerWindow) bool {
			return a.ID() == b.ID() && a.Expires.Equal(b.Expires) && a.Tally == b.Tally
		})
		if !same {
			t.Errorf("the windows are\n%+v, want\n%+v", got, want)
		}
	}
	held := func(s domain.Slot, count, refused int64) domain.LedgerWindow {
		return domain.LedgerWindow{Policy: s.Policy, Key: s.Key, Schedule: s.Schedule, Start: s.Window.Start, Expires: s.Expires, Tally: tally(count, refused)}
	}

	t.Run("the windows are those that were hit, with what they hold", func(t *testing.T) {
		policy := draw("p")
		a, b, slides, never := slot(policy, "a", 2, at), slot(policy, "b", domain.Unlimited, at), sliding(policy, "a", 9, 1, 2), slot(policy, "never", 1, at)
		slides.Schedule, slides.Expires = "sliding 1m", at.Add(time.Hour)
		mustTake(t, store, take(2, a), take(1, a), told(math.MaxInt64, b), take(3, slides))
		look(t, store, never)
		want(t, list(t, policy, 10), held(a, 3, 1), held(b, math.MaxInt64, math.MaxInt64), held(slides, 3, 0))
		if err := other.Reset(context.Background(), policy, "a"); err != nil {
			t.Fatal(err)
		}
		want(t, list(t, policy, 10), held(b, math.MaxInt64, math.MaxInt64))
	})

	t.Run("windows come in the order of bytes and of time, and pages repeat and lose none", func(t *testing.T) {
		policy := draw("p")
		var all []domain.LedgerWindow
		var takes []domain.Take
		for _, policy := range []string{policy, policy + "A", policy + "a"} {
			for _, key := range []string{"b", "a", "A", "a ", "Z", "é", "😀"} {
				for _, schedule := range []string{"sliding 1m", "fixed 1m"} {
					for _, start := range []int64{2, 10, -60} {
						s := slot(policy, key, 100, at)
						s.Schedule, s.Window.Start = schedule, at.Add(time.Duration(start)*time.Second)
						takes, all = append(takes, take(1, s)), append(all, held(s, 1, 0))
					}
				}
			}
		}
		mustTake(t, store, takes...)
		for _, size := range []int{1, 7, 1000} {
			want(t, list(t, policy, size), all...)
		}
	})

	t.Run("windows before 1970 come first", func(t *testing.T) {
		policy := draw("p")
		early, first, late := slot(policy, "k", 1, time.Unix(-120, 0)), slot(policy, "k", 1, time.Unix(-60, 0)), slot(policy, "k", 1, at)
		for _, s := range []*domain.Slot{&early, &first} {
			s.Expires = late.Expires // so that no store has a reason to forget it
		}
		mustTake(t, store, take(1, late), take(1, first), take(1, early))
		want(t, list(t, policy, 1), held(early, 1, 0), held(first, 1, 0), held(late, 1, 0))
	})

	t.Run("from the zero window on all are listed", func(t *testing.T) {
		first, last := slot("!"+draw("p"), draw("key"), 1, at), slot("~"+draw("p"), draw("key"), 1, at)
		mustTake(t, store, take(1, first), take(1, last))
		var found []domain.LedgerWindow
		for _, w := range list(t, "", 1000) {
			if w.Key == first.Key || w.Key == last.Key {
				found = append(found, w)
			}
		}
		want(t, found, held(first, 1, 0), held(last, 1, 0))
	})

	t.Run("what is there all the while is listed once beside running hits", func(t *testing.T) {
		policy := draw("p")
		var takes []domain.Take
		for i := range 40 {
			takes = append(takes, take(1, slot(policy, fmt.Sprintf("%02d", i), domain.Unlimited, at)))
		}
		mustTake(t, store, takes...)
		var round atomic.Int64
		concurrently(4, func(g int) {
			seen := map[string]int{}
			for _, w := range list(t, policy, 3, func() {
				n := round.Add(1)
				mustTake(t, other, take(1, slot(policy, fmt.Sprintf("%02d new %d", n%40, n), 1, at)), takes[n%40])
			}) {
				seen[w.Key]++
			}
			for i := range 40 {
				if key := fmt.Sprintf("%02d", i); seen[key] != 1 {
					t.Errorf("the window of %s is listed %d times", key, seen[key])
				}
			}
		})
	})

	t.Run("ends with the context", func(t *testing.T) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := promptly(t, "Windows", func() error { _, err := lister.Windows(ended, domain.LedgerWindow{}, 1); return err }); err == nil {
			t.Error("Windows succeeded")
		}
	})
}
