package gormstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// blockStore is what blocks are seen by.
type blockStore interface {
	domain.AuditLog
	domain.Totaler
	domain.CallPruner
	domain.Derived
}

// blockEngines open handles on one store each.
var blockEngines = map[string]func(t *testing.T) (open func() blockStore, db func() *sql.DB){
	"SQLite": func(t *testing.T) (func() blockStore, func() *sql.DB) {
		file := filepath.Join(t.TempDir(), "test.db")
		return func() blockStore { return open(t, "sqlite:"+file) }, func() *sql.DB { return openDB(t, "sqlite3", file+"?_busy_timeout=5000") }
	},
	"PostgreSQL": func(t *testing.T) (func() blockStore, func() *sql.DB) {
		dsn := servicetest.Postgres(t)
		return func() blockStore { return openPostgres(t, dsn) }, func() *sql.DB { return openDB(t, "pgx", dsn) }
	},
}

func openDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func forEachBlockEngine(t *testing.T, test func(t *testing.T, open func() blockStore, db func() *sql.DB)) {
	for name, engine := range blockEngines {
		t.Run(name, func(t *testing.T) {
			open, db := engine(t)
			test(t, open, db)
		})
	}
}

var logged = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fillCalls appends n calls of a policy, each of another key, made at a time.
func fillCalls(t *testing.T, log domain.AuditLog, policy string, n int, at time.Time) {
	t.Helper()
	for done := 0; done < n; done += 1000 {
		calls := make([]domain.Call, min(1000, n-done))
		for i := range calls {
			calls[i] = domain.Call{Kind: domain.CallHit, At: at, Policy: policy, Key: fmt.Sprint("key-", done+i), Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 5, WindowStart: at, Schedule: "fixed 1h"}
		}
		if err := log.Append(context.Background(), calls); err != nil {
			t.Fatal(err)
		}
	}
}

// waitForBlocks waits until so many blocks are there.
func waitForBlocks(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var there int
		if err := db.QueryRow(`SELECT count(DISTINCT block) FROM api_call_blocks`).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there >= n {
			return
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%d blocks are there, want %d", there, n)
		}
	}
}

// wantWhole checks that what was derived fits to the calls.
func wantWhole(t *testing.T, log domain.Derived) {
	t.Helper()
	if err := log.CheckDerived(t.Context(), func(table, policy, detail string) { t.Errorf("%s of %s: %s", table, policy, detail) }); err != nil {
		t.Fatal(err)
	}
}

func usage(t *testing.T, log domain.Totaler, query domain.TotalQuery) (units int64) {
	t.Helper()
	if err := log.Totals(t.Context(), query, func(total domain.Total) { units += total.Allowed + total.Refused }); err != nil {
		t.Fatal(err)
	}
	return units
}

// Several processes find the same blocks full; each key is found at every moment.
func TestBlocksThatSeveralAddLoseNoKey(t *testing.T) {
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		one, other := open(), open()
		const each = 20_000
		var done atomic.Bool
		var group sync.WaitGroup
		fillCalls(t, one, "p", 1000, logged)
		group.Go(func() {
			for n := 0; !done.Load(); n++ {
				key := fmt.Sprint("key-", n%1000)
				found, err := one.Calls(context.Background(), domain.CallQuery{Key: key, Policy: "p", OldestFirst: true, Limit: 1})
				if err != nil || len(found) != 1 || found[0].ID != int64(n%1000)+1 {
					t.Errorf("%s is found as %+v, %v", key, found, err)
					return
				}
			}
		})
		var writers sync.WaitGroup
		for _, store := range []blockStore{one, other} {
			writers.Go(func() { fillCalls(t, store, "p", each, logged) })
		}
		writers.Wait()
		waitForBlocks(t, db(), 2)
		done.Store(true)
		group.Wait()
		wantWhole(t, one)
		if got := usage(t, one, domain.TotalQuery{By: domain.UsageByKey}); got != 2*each+1000 {
			t.Errorf("usage by key is %d, want %d", got, 2*each+1000)
		}
	})
}

// What a process leaves that ends in the middle is made good.
func TestABlockThatWasBegunIsAddedWhole(t *testing.T) {
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		store, raw := open(), db()
		fillCalls(t, store, "p", 1, logged)
		if _, err := raw.Exec(`INSERT INTO api_calls_by_key (block, key, policy, allowed, refused, partial, ids) VALUES (0, 'key-7', 'p', 9, 9, ` + boolOf(raw, false) + `, '999')`); err != nil {
			t.Fatal(err)
		}
		fillCalls(t, store, "p", 17_000, logged)
		waitForBlocks(t, raw, 1)
		wantWhole(t, store)
	})
}

// boolOf is a truth value as the engine writes it.
func boolOf(db *sql.DB, value bool) string {
	if strings.Contains(fmt.Sprintf("%T", db.Driver()), "sqlite") {
		return map[bool]string{true: "1", false: "0"}[value]
	}
	return fmt.Sprint(value)
}

// A block has calls of a policy before the span, and of another one in it.
func TestUsageLeavesOutWhatABlockHasBesideTheSpan(t *testing.T) {
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		store, later := open(), logged.Add(time.Hour)
		fillCalls(t, store, "old", 16_500, logged)
		fillCalls(t, store, "new", 17_000, later)
		waitForBlocks(t, db(), 2)
		for _, by := range []domain.UsageBy{domain.UsageByKey, domain.UsageByPolicy, domain.UsageByPath, domain.UsageByHour} {
			if got := usage(t, store, domain.TotalQuery{By: by, From: later}); got != 17_000 {
				t.Errorf("by %s it is %d, want 17000", by, got)
			}
			if got := usage(t, store, domain.TotalQuery{By: by, From: later, Key: "key-1"}); got != 1 {
				t.Errorf("by %s of one key it is %d, want 1", by, got)
			}
		}
	})
}

// Prunes beside the adding of blocks leave sums right, and remove no more than they shall.
func TestPruningBesideTheAddingOfBlocksIsExact(t *testing.T) {
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		const kept = 20_000
		store, other := open(), open()
		var writers, pruner sync.WaitGroup
		var done atomic.Bool
		for g := range 2 {
			writers.Go(func() { fillCalls(t, store, []string{"p", "q"}[g], 40_000, logged) })
		}
		pruner.Go(func() {
			for more := true; more || !done.Load(); {
				var err error
				if _, more, err = other.PruneCalls(context.Background(), domain.Prune{Policy: "p", At: logged, Most: kept, Limit: 200}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		writers.Wait()
		done.Store(true)
		pruner.Wait()
		wantWhole(t, store)
		for policy, want := range map[string]int64{"p": kept, "q": 40_000} {
			if got := usage(t, store, domain.TotalQuery{By: domain.UsageByPolicy, Policy: policy}); got != want {
				t.Errorf("usage of %s is %d, want %d", policy, got, want)
			}
		}
	})
}

// More calls are misdated than a block has, and a prune removes: whether they go is said far behind them.
func TestPruningLooksPastBlocksOfMisdatedCalls(t *testing.T) {
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		store, now := open(), logged.Add(time.Hour)
		prune := func(want int) {
			t.Helper()
			removed := 0
			for more := true; more; {
				n, again, err := store.PruneCalls(t.Context(), domain.Prune{Policy: "p", At: now, Before: now.Add(-time.Minute), Limit: 5000})
				if err != nil {
					t.Fatal(err)
				}
				removed, more = removed+n, again
			}
			if removed != want {
				t.Errorf("%d calls are removed, want %d", removed, want)
			}
		}
		const ahead = 36_000
		fillCalls(t, store, "q", 100, logged)
		fillCalls(t, store, "p", ahead, now.AddDate(1, 0, 0))
		fillCalls(t, store, "q", 100, logged)
		waitForBlocks(t, db(), 2)
		prune(0)
		fillCalls(t, store, "p", 10, logged)
		fillCalls(t, store, "p", 7, now)
		prune(ahead + 10)
		wantWhole(t, store)
		for policy, want := range map[string]int64{"p": 7, "q": 200} {
			if got := usage(t, store, domain.TotalQuery{By: domain.UsageByPolicy, Policy: policy}); got != want {
				t.Errorf("usage of %s is %d, want %d", policy, got, want)
			}
		}
	})
}

func TestWhatWasDerivedAndChangedByHandIsFoundAndMadeAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: many rows, one after the other")
	}
	forEachBlockEngine(t, func(t *testing.T, open func() blockStore, db func() *sql.DB) {
		store, raw := open(), db()
		fillCalls(t, store, "p", 17_000, logged)
		waitForBlocks(t, raw, 1)
		for statement, says := range map[string]string{
			`DELETE FROM api_calls_by_key WHERE key = 'key-5'`:                                       `the row of key "key-5" is missing`,
			`UPDATE api_calls_by_key SET ids = '1,2,3' WHERE key = 'key-6'`:                          `ids or sums of key "key-6"`,
			`UPDATE api_calls_by_key SET key = 'nobody' WHERE key = 'key-7'`:                         `the row of key "key-7" is missing`,
			`UPDATE api_call_blocks SET last_called_at = '2020-01-01T00:00:00.000Z' WHERE block = 0`: `before the first or after the last time`,
			`UPDATE api_call_blocks SET allowed = allowed + 1`:                                       `the sums of the policy`,
		} {
			if _, err := raw.Exec(statement); err != nil {
				t.Fatal(err)
			}
			var said []string
			if err := store.CheckDerived(t.Context(), func(table, policy, detail string) { said = append(said, table+" of "+policy+": "+detail) }); err != nil {
				t.Fatal(err)
			}
			if len(said) != 1 || !strings.Contains(said[0], says) {
				t.Errorf("%s: found %q, want %q", statement, said, says)
			}
			for _, statement := range []string{`DELETE FROM api_calls_by_key`, `DELETE FROM api_call_blocks`} { // as the message says
				if _, err := raw.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			fillCalls(t, store, "p", 1, logged)
			waitForBlocks(t, raw, 1)
			wantWhole(t, store)
		}
	})
}

var _ = []blockStore{(*gormstore.Store)(nil), (*gormstore.Postgres)(nil)}
