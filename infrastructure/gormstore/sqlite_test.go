package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

var at = time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)

// take is one unit of key under the policy p in a window of a minute.
func take(key string, limit int64) domain.Take {
	start := at.Truncate(time.Minute)
	return domain.Take{Cost: 1, Slots: []domain.Slot{{
		Policy: "p", Key: key, Limit: limit, Window: domain.Window{Start: start, End: start.Add(time.Minute)}, Expires: start.Add(2 * time.Minute),
	}}}
}

// raw opens the file as sqlite3 on the command line would.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+strings.TrimPrefix(dsn, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func ask[T any](t testing.TB, db *sql.DB, query string) (answer T) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

func TestTheDriverCarriesASQLiteWithoutTheWALResetBug(t *testing.T) {
	version, number, _ := sqlite3.Version()
	if number < 3_051_003 {
		t.Errorf("SQLite %s can corrupt a database in WAL mode; 3.51.3 is the first that does not", version)
	}
}

func TestTablesAreReadableWithPlainSQL(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Asia/Kolkata"} {
		t.Run(zone, func(t *testing.T) {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			dsn := newDSN(t)
			store := open(t, dsn)
			local := take("alice", 3)
			window := &local.Slots[0].Window
			window.Start, window.End, local.Slots[0].Expires = window.Start.In(location), window.End.In(location), local.Slots[0].Expires.In(location)
			if _, err := store.Take(t.Context(), []domain.Take{local, take("alice", 3)}); err != nil {
				t.Fatal(err)
			}
			if err := store.Append(t.Context(), []domain.Call{{Kind: domain.CallHit, At: at.Add(7 * time.Millisecond).In(location),
				Policy: "p", Key: "alice", Cost: 1, Hits: 1, Allowed: true, Count: 2, Limit: 3, WindowStart: window.Start, Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "r"}}}); err != nil {
				t.Fatal(err)
			}
			db := raw(t, dsn)
			got := ask[string](t, db, `SELECT policy||'|'||key||'|'||window_start||'|'||count||'|'||refused||'|'||expires_at FROM rate_limit_windows`)
			if want := "p|alice|2026-01-01T00:00:00Z|2|0|2026-01-01T00:02:00Z"; got != want {
				t.Errorf("window row = %s, want %s", got, want)
			}
			got = ask[string](t, db, `SELECT id||'|'||called_at||'|'||kind||'|'||policy||'|'||key||'|'||cost||'|'||hits||'|'||allowed||'|'||shadow||'|'||count||'|'||refused||'|'||"limit"||'|'||window_start||'|'||method||'|'||path||'|'||request_id FROM api_calls`)
			if want := "1|2026-01-01T00:00:30.007Z|hit|p|alice|1|1|1|0|2|0|3|2026-01-01T00:00:00Z|GET|/ping|r"; got != want {
				t.Errorf("call row = %s, want %s", got, want)
			}
			// Whatever the zone, the window expires two minutes after its start and not before.
			if n, err := store.Sweep(t.Context(), at.Add(90*time.Second-1).In(location), 10); n != 0 || err != nil {
				t.Errorf("swept %d a moment too early, %v", n, err)
			}
			if n, err := store.Sweep(t.Context(), at.Add(90*time.Second).In(location), 10); n != 1 || err != nil {
				t.Errorf("swept %d in time, %v", n, err)
			}
		})
	}
}

func TestAFileNameIsMeantLiterally(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a%20b.db", "a#b.db", "ä.db", "a'b.db"} {
		open(t, "sqlite:"+filepath.Join(dir, name))
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDSNsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, dsn := range []string{"", "ratelimitlog.db", "sqlite:", "mysql://x", "sqlite:a\x00b", "sqlite:/does/not/exist/x.db"} {
		if store, err := gormstore.Open(t.Context(), dsn, gormstore.Options{}); err == nil {
			store.Close()
			t.Errorf("%q was opened", dsn)
		}
	}
	if _, err := gormstore.Open(t.Context(), newDSN(t), gormstore.Options{Synchronous: "off"}); err == nil || !strings.Contains(err.Error(), "normal or full") {
		t.Errorf("synchronous=off: %v", err)
	}
}

func TestAHitWaitsForAnotherProcessThatHoldsTheWriteLock(t *testing.T) { // case 71
	dsn := newDSN(t)
	store := open(t, dsn)
	other, err := raw(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := store.Take(context.Background(), []domain.Take{take("k", 1)})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the hit did not wait: %v", err)
	case <-time.After(300 * time.Millisecond): // longer than SQLite itself waits here
	}
	if _, err := store.Look(t.Context(), take("k", 1).Slots); err != nil {
		t.Errorf("a look waits for the writer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.Take(ctx, []domain.Take{take("k", 1)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hit with a deadline: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the hit failed after its wait: %v", err)
	}
}

func TestHandlesThatWriteWithoutABreakLetEachOtherIn(t *testing.T) { // case 70
	dsn := newDSN(t)
	stores := []*gormstore.Store{open(t, dsn), open(t, dsn), open(t, dsn)}
	var group sync.WaitGroup
	deadline := time.Now().Add(time.Second)
	for i, store := range stores {
		group.Go(func() {
			n := 0
			for ; time.Now().Before(deadline); n++ {
				var takes []domain.Take
				for k := range 200 {
					takes = append(takes, take(fmt.Sprint(k), 1<<40))
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				if _, err := store.Take(ctx, takes); err != nil {
					t.Error(err)
				}
				cancel()
			}
			if n < 5 {
				t.Errorf("store %d got %d turns in a second", i, n)
			}
		})
	}
	group.Wait()
}

func TestHandlesThatOpenTogetherMigrateOnce(t *testing.T) {
	dsn := newDSN(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			store, err := gormstore.Open(context.Background(), dsn, gormstore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := store.Take(context.Background(), []domain.Take{take("k", 100)}); err != nil {
				t.Error(err)
			}
			store.Close()
		})
	}
	group.Wait()
	if n := ask[int](t, raw(t, dsn), `SELECT count FROM rate_limit_windows`); n != 8 {
		t.Errorf("count = %d, want 8", n)
	}
}

func TestASchemaOfAnotherAgeIsRefused(t *testing.T) {
	dsn := newDSN(t)
	open(t, dsn).Close()
	db := raw(t, dsn)
	mustExec(t, db, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
	if _, err := gormstore.Open(t.Context(), dsn, gormstore.Options{}); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("a newer schema: %v", err)
	}
	if _, err := gormstore.OpenReader(t.Context(), dsn); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("a newer schema, to read: %v", err)
	}

	empty := newDSN(t)
	mustExec(t, raw(t, empty), `CREATE TABLE something (x)`)
	if _, err := gormstore.OpenReader(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "run ratelimitlog migrate") {
		t.Errorf("a database without our tables: %v", err)
	}
	if _, err := gormstore.OpenReader(t.Context(), newDSN(t)); err == nil || !strings.Contains(err.Error(), "there is no such database yet") {
		t.Errorf("no file: %v", err)
	}
	garbage := newDSN(t)
	if err := os.WriteFile(strings.TrimPrefix(garbage, "sqlite:"), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gormstore.OpenReader(t.Context(), garbage); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("a file of another kind, to read: %v", err)
	}
}

func TestAReaderReadsBesideAWriterAndChangesNothing(t *testing.T) {
	dsn := newDSN(t)
	writer := open(t, dsn)
	reader, err := gormstore.OpenReader(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := writer.Take(t.Context(), []domain.Take{take("k", 1)}); err != nil {
		t.Fatal(err)
	}
	if looked, err := reader.Look(t.Context(), take("k", 1).Slots); err != nil || looked[0].Count != 1 {
		t.Errorf("looked %+v, %v", looked, err)
	}
	if _, err := reader.Take(t.Context(), []domain.Take{take("k", 1)}); err == nil {
		t.Error("a store opened to read took")
	}
}

// The log is read in pages, each a transaction of its own: however long somebody
// reads, the write-ahead log is cut and used again.
func TestTheWriteAheadLogStaysBoundedWhileALongReaderIsOpen(t *testing.T) {
	for _, where := range []string{"in this process", "in another process"} {
		t.Run(where, func(t *testing.T) {
			dsn := newDSN(t)
			store := open(t, dsn)
			fill(t, store, 10_000)
			reader, gap := store, func() {}
			if where == "in another process" {
				var err error
				if reader, err = gormstore.OpenReader(t.Context(), dsn); err != nil {
					t.Fatal(err)
				}
				defer reader.Close()
				gap = func() { time.Sleep(time.Millisecond) } // as long as printing a page takes
			}
			stop, ended := make(chan struct{}), make(chan int)
			go func() { ended <- readOverAndOver(t, reader, gap, stop) }()
			var largest int64
			for range 30 { // 120 MB in all
				fill(t, store, 4_000)
				info, err := os.Stat(strings.TrimPrefix(dsn, "sqlite:") + "-wal")
				if err != nil {
					t.Fatal(err)
				}
				largest = max(largest, info.Size())
			}
			close(stop)
			if rows := <-ended; rows == 0 {
				t.Error("the reader read nothing")
			}
			if largest > 64<<20 {
				t.Errorf("the write-ahead log grew to %d MiB while 120 MB were written", largest>>20)
			}
			t.Logf("largest write-ahead log: %d MiB", largest>>20)
		})
	}
}

// fill logs calls of 1 kB each.
func fill(t *testing.T, store *gormstore.Store, rows int) {
	t.Helper()
	calls := make([]domain.Call, 1000)
	for i := range calls {
		calls[i] = domain.Call{Kind: domain.CallHit, At: at, Policy: "p", Key: "k", Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 1,
			WindowStart: at, Origin: domain.Origin{Method: "GET", Path: "/" + strings.Repeat("x", 1000)}}
	}
	for range rows / len(calls) {
		if err := store.Append(context.Background(), calls); err != nil {
			t.Error(err)
		}
	}
}

// readOverAndOver reads the log from end to end until it is stopped, and returns
// how many calls it has read.
func readOverAndOver(t *testing.T, store *gormstore.Store, gap func(), stop <-chan struct{}) (rows int) {
	query := domain.CallQuery{OldestFirst: true, Limit: 100} // a read of a few milliseconds, also under the race detector
	for {
		page, err := store.Calls(context.Background(), query)
		if err != nil {
			t.Error(err)
		}
		rows += len(page)
		query.After = 0
		if len(page) > 0 {
			query.After = page[len(page)-1].ID
		}
		gap()
		select {
		case <-stop:
			return rows
		default:
		}
	}
}

func TestSpaceOfWindowsThatWereSweptIsUsedAgain(t *testing.T) { // case 151
	dsn := newDSN(t)
	store := open(t, dsn)
	file := strings.TrimPrefix(dsn, "sqlite:")
	size := func() int64 {
		t.Helper()
		raw(t, dsn).Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	fill := func(round int) {
		t.Helper()
		for i := range 100 {
			takes := make([]domain.Take, 200)
			for j := range takes {
				takes[j] = take(fmt.Sprintf("key-%d-%d-%d", round, i, j), 3)
			}
			if _, err := store.Take(t.Context(), takes); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(1)
	first := size()
	for {
		n, err := store.Sweep(t.Context(), at.Add(time.Hour), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n < 1000 {
			break
		}
	}
	fill(2)
	if second := size(); float64(second) > 1.1*float64(first) {
		t.Errorf("the file has %d bytes after the first fill and %d after the second", first, second)
	}
}
