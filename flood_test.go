package ratelimitlog_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

// Whoever makes many keys neither frees a key that is used up, nor shuts out others, nor
// fills the disk for longer than his windows live and the log is kept.
func TestAFloodOfKeysFreesNobodyAndLeavesNothing(t *testing.T) { // case 163
	const keys, kept = 50_000, 1000
	s := servePoliciesWith(t, fmt.Sprintf("policies: {default: {limit: 3, window: 1m, audit: {max_rows: %d}}}\n", kept), func(c *ratelimitlog.Config) { c.PruneEvery = 20 * time.Millisecond })
	used := func() int {
		t.Helper()
		return s.ping(t, "victim").status
	}
	for i := range 5 {
		if status := used(); status != map[bool]int{true: 200, false: 429}[i < 3] {
			t.Errorf("ping %d of the victim: %d", i+1, status)
		}
	}
	client := clientOf(&http.Transport{MaxIdleConnsPerHost: 32})
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for c := range 32 {
		group.Go(func() {
			for i := c; i < keys; i += 32 {
				if a := s.send(t, client, "GET", "/ping", "", "X-Client-Key", fmt.Sprint("flood-", i)); a.status != 200 {
					t.Errorf("key %d of the flood: %d", i, a.status)
				}
			}
		})
	}
	group.Wait()
	if status := used(); status != 429 {
		t.Errorf("the victim after the flood: %d", status)
	}
	if a := s.ping(t, "honest"); a.status != 200 {
		t.Errorf("a new key after the flood: %d", a.status)
	}
	s.clock.advance(2 * time.Minute)
	rows := func(table string) int64 { return count(t, s.dsn, "SELECT '', count(*) FROM "+table)[""] }
	eventually(t, "windows and calls are pruned", func() bool { return rows("rate_limit_windows") == 0 && rows("api_calls WHERE kind = 'hit'") <= kept })
	eventually(t, "no more keys are kept than calls", func() bool { return rows("api_calls_by_key") <= kept+1 })
	if status := used(); status != 200 {
		t.Errorf("the victim in the next window: %d", status)
	}
}
