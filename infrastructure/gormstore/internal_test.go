package gormstore

import (
	"context"
	"database/sql"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func openTest(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), Options{Synchronous: SynchronousFull})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Pragmas belong to connections: each one of both pools must have them.
func TestEveryConnectionIsSetUp(t *testing.T) {
	s := openTest(t)
	pragma := func(c *sql.Conn, name string) string {
		var value string
		if err := c.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return value
	}
	check := func(pool *sql.DB, connections int, want map[string]string) {
		var open []*sql.Conn
		for range connections {
			c, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			for name, value := range want {
				if got := pragma(c, name); got != value {
					t.Errorf("PRAGMA %s = %s, want %s", name, got, value)
				}
			}
		}
		for _, c := range open {
			c.Close()
		}
	}
	check(s.writer, 1, map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "50", "wal_autocheckpoint": "4096", "journal_size_limit": "33554432"})
	check(s.reader, readers, map[string]string{"journal_mode": "wal", "query_only": "1", "busy_timeout": "5000"})
	if n := s.writer.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d connections may write", n)
	}
}

// The upsert is GORM's: one row for a window, whatever was there before is replaced.
func TestTheUpsertIsComposedByGORM(t *testing.T) {
	s := openTest(t)
	got, err := composeUpsert(s.gorm)(2)
	if err != nil {
		t.Fatal(err)
	}
	want := "INSERT INTO `rate_limit_windows` (`policy`,`key`,`schedule`,`window_start`,`count`,`refused`,`expires_at`) VALUES (?,?,?,?,?,?,?),(?,?,?,?,?,?,?) " +
		"ON CONFLICT (`policy`,`key`,`schedule`,`window_start`) DO UPDATE SET `count`=`excluded`.`count`,`refused`=`excluded`.`refused`"
	if strings.TrimSpace(got) != want {
		t.Errorf("the upsert is\n%s, want\n%s", got, want)
	}
}

// Values are bound in the order of the fields; a field added in the wrong place
// would put values into wrong columns.
func TestValuesAreBoundInTheOrderOfTheFields(t *testing.T) {
	for row, want := range map[any]string{
		windowRow{}:   "Policy Key Schedule WindowStart Count Refused ExpiresAt",
		newCallRow{}:  "CalledAt Kind Policy Key Cost Hits Allowed Shadow Count Refused Limit WindowStart Method Path RequestID Schedule",
		fullCallRow{}: "Row Coverage Actor Hash",
	} {
		var fields []string
		for i := range reflect.TypeOf(row).NumField() {
			fields = append(fields, reflect.TypeOf(row).Field(i).Name)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%T has the fields %s, want %s", row, got, want)
		}
	}
}

func TestAFullDiskFailsTheHitAndLosesNothing(t *testing.T) {
	s := openTest(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := func(key string) domain.Take {
		return domain.Take{Cost: 1, Slots: []domain.Slot{{Policy: "p", Key: key, Limit: 5, Window: domain.Window{Start: start, End: start.Add(time.Minute)}, Expires: start}}}
	}
	if _, err := s.Take(t.Context(), []domain.Take{one("k")}); err != nil {
		t.Fatal(err)
	}
	var pages int
	if err := s.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if err := s.writer.QueryRow("PRAGMA max_page_count = 1").Scan(&pages); err != nil { // as many as there are
		t.Fatal(err)
	}
	fill := func() error {
		takes := make([]domain.Take, 1000)
		for i := range takes {
			takes[i] = one(strings.Repeat("x", 400) + string(rune('a'+i%26)) + time.Duration(i).String())
		}
		_, err := s.Take(context.Background(), takes)
		return err
	}
	if err := fill(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("a full disk: %v", err)
	}
	if err := s.writer.QueryRow("PRAGMA max_page_count = 1000000").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if looked, err := s.Look(t.Context(), one("k").Slots); err != nil || looked[0].Count != 1 {
		t.Errorf("after a full disk: %+v, %v", looked, err)
	}
	if err := fill(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// A database in memory is one for all that use the store, not one for each connection.
func TestADatabaseInMemoryIsOne(t *testing.T) { // case 149
	s, err := Open(t.Context(), "sqlite::memory:", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	take := domain.Take{Cost: 1, Slots: []domain.Slot{{Policy: "p", Key: "k", Limit: 100, Window: domain.Window{Start: start, End: start.Add(time.Minute)}, Expires: start}}}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := s.Take(context.Background(), []domain.Take{take}); err != nil {
				t.Error(err)
			}
			if _, err := s.Look(context.Background(), take.Slots); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if looked, err := s.Look(t.Context(), take.Slots); err != nil || looked[0].Count != 50 {
		t.Errorf("count %+v, %v; want 50", looked, err)
	}
}

// On PostgreSQL too, with an array for each column in place of VALUES, and an order
// in which the rows are locked.
func TestTheStatementsOfPostgreSQLAreComposedByGORM(t *testing.T) {
	p, err := OpenPostgres("postgres://127.0.0.1:1/none", PostgresOptions{}) // nothing is sent there
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	insert := `INSERT INTO "rate_limit_windows" ("policy","key","schedule","window_start","count","refused","expires_at") ` +
		`SELECT "policy","key","schedule","window_start","count","refused","expires_at" ` +
		`FROM unnest($1::text[],$2::text[],$3::text[],$4::timestamptz[],$5::bigint[],$6::bigint[],$7::timestamptz[]) ` +
		`WITH ORDINALITY AS new("policy","key","schedule","window_start","count","refused","expires_at","n") ORDER BY "n" `
	for got, want := range map[string]string{
		p.statements.makeWindows:   insert + `ON CONFLICT DO NOTHING`,
		p.statements.upsertWindows: insert + `ON CONFLICT ("policy","key","schedule","window_start") DO UPDATE SET "count"="excluded"."count","refused"="excluded"."refused"`,
	} {
		if got != want {
			t.Errorf("composed\n%s, want\n%s", got, want)
		}
	}
	if !strings.HasPrefix(p.statements.insertCalls, `INSERT INTO "api_calls" ("called_at","kind","policy","key","cost","hits","allowed","shadow","count","refused","limit","window_start","method","path","request_id","schedule") SELECT`) ||
		!strings.Contains(p.statements.insertCalls, `unnest($1::timestamptz[],$2::text[],$3::text[],$4::text[],$5::bigint[],$6::bigint[],$7::boolean[],$8::boolean[],$9::bigint[],$10::bigint[],$11::bigint[],$12::timestamptz[],$13::text[],$14::text[],$15::text[],$16::text[])`) {
		t.Errorf("composed\n%s", p.statements.insertCalls)
	}
	if len(windowArrays(nil)) != 7 || len(callArrays(nil)) != 16 || len(fullCallArrays(nil)) != 19 {
		t.Error("there are more columns or fewer than arrays")
	}
}
