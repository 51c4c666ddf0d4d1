package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// readAll pages through what query asks for until a page is not full, and runs
// between, if there is one, after each page.
func readAll(t *testing.T, log domain.AuditLog, query domain.CallQuery, between ...func()) (seen []domain.Call) {
	t.Helper()
	for {
		page := find(t, log, query)
		if !goesOn(t, seen, page, query.OldestFirst) {
			return seen
		}
		seen = append(seen, page...)
		if len(page) < query.Limit {
			return seen
		}
		if last := page[len(page)-1].ID; query.OldestFirst {
			query.After = last
		} else {
			query.Before = last
		}
		for _, f := range between {
			f()
		}
	}
}

// goesOn checks that the IDs of a page go on where the pages before ended.
func goesOn(t *testing.T, seen, page []domain.Call, oldestFirst bool) bool {
	t.Helper()
	for i, call := range page {
		before := seen[max(len(seen)-1, 0):]
		if i > 0 {
			before = page[i-1:]
		}
		if len(before) > 0 && (call.ID == before[0].ID || (call.ID > before[0].ID) != oldestFirst) {
			t.Errorf("call %d follows call %d", call.ID, before[0].ID)
			return false
		}
	}
	return true
}

func testPages(t *testing.T, handles ...domain.AuditLog) {
	store := handles[0]

	t.Run("pages lose and repeat nothing", func(t *testing.T) {
		key := draw("key")
		var want []string
		for i := range 25 {
			mustAppend(t, store, allowed("p", key, fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
			if i%4 == 0 {
				mustAppend(t, store, allowed("p", draw("other"), ""))
			}
		}
		for _, oldestFirst := range []bool{true, false} {
			for _, size := range []int{1, 5, 7, 25, 100} {
				got := paths(readAll(t, store, domain.CallQuery{Key: key, OldestFirst: oldestFirst, Limit: size}))
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d, oldest first %v, show %v", size, oldestFirst, got)
				}
			}
			slices.Reverse(want)
		}
	})

	t.Run("both bounds are exclusive", func(t *testing.T) {
		key := draw("key")
		for i := range 6 {
			mustAppend(t, store, allowed("p", key, fmt.Sprint(i)))
		}
		all := find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 10})
		if len(all) != 6 {
			t.Fatalf("%d calls, want 6", len(all))
		}
		for _, c := range []struct {
			query domain.CallQuery
			want  []string
		}{
			{domain.CallQuery{After: all[1].ID, OldestFirst: true}, []string{"2", "3", "4", "5"}},
			{domain.CallQuery{After: all[1].ID}, []string{"5", "4", "3", "2"}},
			{domain.CallQuery{Before: all[2].ID}, []string{"1", "0"}},
			{domain.CallQuery{Before: all[2].ID, OldestFirst: true}, []string{"0", "1"}},
			{domain.CallQuery{After: all[0].ID, Before: all[5].ID, OldestFirst: true}, []string{"1", "2", "3", "4"}},
			{domain.CallQuery{After: all[3].ID, Before: all[4].ID}, nil},
			{domain.CallQuery{After: all[5].ID}, nil},
		} {
			c.query.Key, c.query.Limit = key, 10
			if got := paths(find(t, store, c.query)); !slices.Equal(got, c.want) {
				t.Errorf("%+v finds %v, want %v", c.query, got, c.want)
			}
		}
	})

	t.Run("a filter does not shorten pages", func(t *testing.T) {
		key := draw("key")
		for i := range 10 {
			mustAppend(t, store, allowed("p", key, fmt.Sprint(i)), refused("p", key, ""), allowed("q", key, ""))
		}
		for _, oldestFirst := range []bool{true, false} {
			query := domain.CallQuery{Key: key, Policy: "p", Outcome: domain.OutcomeAllowed, OldestFirst: oldestFirst, Limit: 4}
			if got := len(readAll(t, store, query)); got != 10 {
				t.Errorf("pages of what is filtered show %d of 10 calls", got)
			}
		}
	})

	// Whoever follows the log by the last ID it has seen must miss none: also those
	// that began earlier and were committed later. Each writer is also a follower, who
	// looks at once after what it appended.
	t.Run("who follows the log while rows arrive sees every call once", func(t *testing.T) {
		const writers, batches = 8, 16
		key := draw("key")
		var total int
		var own [writers][][]domain.Call
		for w := range writers {
			n := 0
			for b := range batches {
				calls := make([]domain.Call, []int{1, 30, 3, 2}[(w+b)%4]) // the long ones take longer to commit
				for i := range calls {
					calls[i] = allowed("p", key, fmt.Sprintf("%d %d %d", w, n, i))
					n++
				}
				own[w] = append(own[w], calls)
			}
			total += n
		}
		var seen [writers][]domain.Call
		follow := func(w int) {
			query := domain.CallQuery{Key: key, OldestFirst: true, Limit: 100}
			if n := len(seen[w]); n > 0 {
				query.After = seen[w][n-1].ID
			}
			seen[w] = append(seen[w], readAll(t, handles[w%len(handles)], query)...)
		}
		concurrently(writers, func(w int) {
			for _, calls := range own[w] {
				mustAppend(t, handles[w%len(handles)], calls...)
				follow(w)
			}
		})
		for w := range writers {
			follow(w)
			if len(seen[w]) != total {
				t.Errorf("follower %d has seen %d of %d calls", w, len(seen[w]), total)
			}
		}
		next := map[int]int{} // by writer
		for i, call := range seen[0] {
			var w, n, place int
			fmt.Sscan(call.Path, &w, &n, &place)
			if n != next[w] {
				t.Fatalf("call %d of writer %d is seen where call %d should be", n, w, next[w])
			}
			next[w] = n + 1
			if place > 0 && (i == 0 || seen[0][i-1].Path != fmt.Sprintf("%d %d %d", w, n-1, place-1)) {
				t.Fatalf("a batch is torn before %q", call.Path)
			}
		}
	})

	t.Run("who reads back while rows arrive sees every older call once", func(t *testing.T) {
		key := draw("key")
		var want []string
		for i := range 40 {
			mustAppend(t, store, allowed("p", key, fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
		}
		slices.Reverse(want)
		var got []string
		for _, call := range readAll(t, store, domain.CallQuery{Key: key, Limit: 3}, func() {
			mustAppend(t, handles[1], allowed("p", key, "new"), allowed("p", key, "new"))
		}) {
			got = append(got, call.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages show %v, want %v", got, want)
		}
	})
}
