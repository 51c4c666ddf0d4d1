package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/domain/storetest"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

func openPostgres(t testing.TB, dsn string) *gormstore.Postgres {
	t.Helper()
	store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

// rawPostgres opens the schema as psql would.
func rawPostgres(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// hit is the call of a hit on key.
func hit(key string) domain.Call {
	return domain.Call{Kind: domain.CallHit, At: at, Policy: "p", Key: key, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 1, WindowStart: at.Truncate(time.Minute)}
}

func TestConformanceOfPostgreSQL(t *testing.T) { // case 148 among others
	for name, mode := range map[string]string{"prepared": "cache_statement", "unprepared": "exec", "simple": "simple_protocol"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "prepared" {
				t.Skip("-short: the others differ in what the driver sends")
			}
			dsn := servicetest.With(t, servicetest.Postgres(t), "default_query_exec_mode", mode)
			storetest.Run(t, func(t *testing.T) storetest.Store { return openPostgres(t, dsn) })
		})
	}
	t.Run("chained", func(t *testing.T) {
		dsn := servicetest.Postgres(t)
		chain(t, dsn)
		storetest.Run(t, func(t *testing.T) storetest.Store { return openPostgres(t, dsn) })
	})
}

// chain has the calls of a database chained from now on.
func chain(t *testing.T, dsn string) {
	t.Helper()
	store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{Migrate: true, TamperEvident: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Keys in another order in each hit, many slots, several processes: nothing is lost,
// nobody waits in a circle, and the log agrees with the counters.
func TestHandlesUnderLoadStayExactWithoutDeadlocks(t *testing.T) { // cases 70, 73
	t.Run("plain", func(t *testing.T) { testHandlesUnderLoad(t, servicetest.Postgres(t)) })
	t.Run("chained", func(t *testing.T) {
		dsn := servicetest.Postgres(t)
		chain(t, dsn)
		testHandlesUnderLoad(t, dsn)
	})
}

func testHandlesUnderLoad(t *testing.T, dsn string) {
	db := rawPostgres(t, dsn)
	const limit, keys, rounds = 40, 60, 30
	stores := []*gormstore.Postgres{openPostgres(t, dsn), openPostgres(t, dsn), openPostgres(t, dsn)}
	var mu sync.Mutex
	admitted, attempted := map[string]int64{}, map[string]int64{}
	var group sync.WaitGroup
	for g := range 9 {
		store := stores[g%len(stores)]
		group.Go(func() {
			for range rounds {
				takes := make([]domain.Take, 1+rand.IntN(20))
				for i := range takes {
					takes[i].Cost = 1
					for _, k := range rand.Perm(keys)[:1+rand.IntN(4)] {
						takes[i].Slots = append(takes[i].Slots, take(fmt.Sprint(k), limit).Slots[0])
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				var taken []domain.Taken
				err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) (err error) {
					if taken, err = counter.Take(ctx, takes); err != nil {
						return err
					}
					var calls []domain.Call
					for i := range taken {
						for j, tally := range taken[i].Tallies {
							if tally.Refuses || taken[i].Allowed {
								call := hit(takes[i].Slots[j].Key)
								call.Allowed, call.Count, call.Refused = taken[i].Allowed, tally.Count, tally.Refused
								calls = append(calls, call)
							}
						}
					}
					return log.Append(ctx, calls)
				})
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range taken {
					for j, tally := range taken[i].Tallies {
						key := takes[i].Slots[j].Key
						if taken[i].Allowed {
							admitted[key]++
						}
						if taken[i].Allowed || tally.Refuses {
							attempted[key]++
						}
					}
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	full := 0
	for key, n := range attempted {
		looked, err := stores[0].Look(t.Context(), take(key, limit).Slots)
		if err != nil {
			t.Fatal(err)
		}
		if looked[0].Count != n || looked[0].Used() != admitted[key] || admitted[key] > limit {
			t.Errorf("key %s: the store says %+v, %d were attempted and %d admitted", key, looked[0], n, admitted[key])
		}
		if admitted[key] == limit {
			full++
		}
	}
	if full == 0 {
		t.Error("no key was hit until it was full")
	}
	if n := ask[int](t, db, `SELECT count(*) FROM rate_limit_windows AS w LEFT JOIN (
		SELECT key, sum(cost * hits) AS count, sum(cost * hits) FILTER (WHERE NOT allowed) AS refused, (array_agg(count ORDER BY id DESC))[1] AS last
		FROM api_calls GROUP BY key) AS log USING (key)
		WHERE w.count <> coalesce(log.count, 0) OR w.refused <> coalesce(log.refused, 0) OR w.count <> coalesce(log.last, 0)`); n != 0 {
		t.Errorf("the log does not agree with %d counters", n)
	}
}

// Resets of many policies at once, sweeps and hits run beside each other.
func TestResetsAndSweepsBesideHitsNeitherFailNorLoseCalls(t *testing.T) { // case 74
	dsn := servicetest.Postgres(t)
	stores := []*gormstore.Postgres{openPostgres(t, dsn), openPostgres(t, dsn)}
	deadline := time.Now().Add(2 * time.Second)
	var group sync.WaitGroup
	run := func(work func(store *gormstore.Postgres) error) {
		for _, store := range stores {
			group.Go(func() {
				for time.Now().Before(deadline) {
					if err := work(store); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	ctx := context.Background()
	policies := []string{"a", "b", "c"}
	for range 2 {
		run(func(store *gormstore.Postgres) error {
			one := take("k", 1<<40)
			one.Slots = nil
			var calls []domain.Call
			for _, i := range rand.Perm(len(policies)) {
				slot := take("k", 1<<40).Slots[0]
				slot.Policy = policies[i]
				one.Slots = append(one.Slots, slot)
				call := hit("k")
				call.Policy = policies[i]
				calls = append(calls, call)
			}
			return store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
				if _, err := counter.Take(ctx, []domain.Take{one}); err != nil {
					return err
				}
				return log.Append(ctx, calls)
			})
		})
	}
	run(func(store *gormstore.Postgres) error {
		return store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			var calls []domain.Call
			for _, i := range rand.Perm(len(policies)) {
				if err := counter.Reset(ctx, policies[i], "k"); err != nil {
					return err
				}
				calls = append(calls, domain.Call{Kind: domain.CallReset, At: at, Policy: policies[i], Key: "k", Allowed: true})
			}
			return log.Append(ctx, calls)
		})
	})
	run(func(store *gormstore.Postgres) error {
		_, err := store.Sweep(ctx, at.Add(-time.Hour), 10) // nothing that counts has expired
		return err
	})
	group.Wait()
	for _, policy := range policies {
		slot := take("k", 1<<40).Slots[0]
		slot.Policy = policy
		looked, err := stores[0].Look(ctx, []domain.Slot{slot})
		if err != nil {
			t.Fatal(err)
		}
		logged := ask[int64](t, rawPostgres(t, dsn), fmt.Sprintf(`SELECT coalesce(sum(hits), 0) FROM api_calls
			WHERE policy = '%s' AND id > (SELECT coalesce(max(id), 0) FROM api_calls WHERE policy = '%s' AND kind = 'reset')`, policy, policy))
		if looked[0].Count != logged {
			t.Errorf("policy %s: the window has %d, the log has %d since the last reset", policy, looked[0].Count, logged)
		}
	}
}

// Whoever follows the log with After sees every call, in the order of IDs, however
// many processes append.
func TestFollowingTheLogLosesNothing(t *testing.T) { // case 155
	dsn := servicetest.Postgres(t)
	const writers, each = 6, 150
	reader := openPostgres(t, dsn)
	var group sync.WaitGroup
	for w := range writers {
		store := openPostgres(t, dsn)
		group.Go(func() {
			for i := range each {
				if err := store.Do(context.Background(), func(counter domain.Counter, log domain.AuditLog) error {
					key := fmt.Sprintf("%d-%d", w, i)
					if _, err := counter.Take(context.Background(), []domain.Take{take(key, 1)}); err != nil {
						return err
					}
					return log.Append(context.Background(), slices.Repeat([]domain.Call{hit(key)}, 1+rand.IntN(3)))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	seen, last := map[string]int{}, int64(0)
	follow := func() {
		for {
			page, err := reader.Calls(context.Background(), domain.CallQuery{OldestFirst: true, After: last, Limit: 50})
			if err != nil {
				t.Error(err)
			}
			for _, call := range page {
				seen[call.Key]++
				last = call.ID
			}
			if len(page) < 50 {
				return
			}
		}
	}
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		follow()
	}
	total := 0
	for _, n := range seen {
		total += n
	}
	if want := ask[int](t, rawPostgres(t, dsn), `SELECT count(*) FROM api_calls`); len(seen) != writers*each || total != want {
		t.Errorf("%d of %d calls were seen, of %d units of %d", total, want, len(seen), writers*each)
	}
}

func TestCountsAndIDsGoBeyond32Bits(t *testing.T) { // case 41
	dsn := servicetest.Postgres(t)
	store, db := openPostgres(t, dsn), rawPostgres(t, dsn)
	if _, err := store.Take(t.Context(), []domain.Take{take("k", 1<<40)}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, `UPDATE rate_limit_windows SET count = 2147483646`)
	mustExec(t, db, `SELECT setval(pg_get_serial_sequence('api_calls', 'id'), 2147483646)`)
	for i := range int64(3) {
		if err := store.Do(t.Context(), func(counter domain.Counter, log domain.AuditLog) error {
			taken, err := counter.Take(t.Context(), []domain.Take{take("k", 1<<40)})
			if err != nil {
				return err
			}
			if got := taken[0].Tallies[0].Count; got != 2147483647+i {
				t.Errorf("count = %d", got)
			}
			call := hit("k")
			call.Cost = 1 << 31
			return log.Append(t.Context(), []domain.Call{call})
		}); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := store.Calls(t.Context(), domain.CallQuery{Limit: 1})
	if err != nil || calls[0].ID != 2147483649 {
		t.Errorf("the last call is %+v, %v", calls, err)
	}
	if sum := ask[int64](t, db, `SELECT sum(cost * hits)::bigint FROM api_calls`); sum != 3<<31 {
		t.Errorf("the sum of the log is %d", sum)
	}
}

func TestTablesOfPostgreSQLAreReadableWithPlainSQL(t *testing.T) { // case 83
	dsn := servicetest.With(t, servicetest.Postgres(t), "TimeZone", "Asia/Tokyo") // which must not matter
	store, db := openPostgres(t, dsn), rawPostgres(t, dsn)
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour} {
		schedule, err := domain.Fixed(window)
		if err != nil {
			t.Fatal(err)
		}
		span := schedule.At(at)
		one := domain.Take{Cost: 1, Slots: []domain.Slot{{Policy: "p", Key: "alice", Schedule: schedule.String(), Limit: 3, Window: span, Expires: schedule.Expiry(span)}}}
		if _, err := store.Take(t.Context(), []domain.Take{one, one}); err != nil {
			t.Fatal(err)
		}
		got := ask[string](t, db, `SELECT policy||'|'||key||'|'||extract(epoch FROM window_start)::bigint||'|'||count||'|'||refused||'|'||extract(epoch FROM expires_at - window_start)::bigint
			FROM rate_limit_windows WHERE schedule = '`+schedule.String()+`'`)
		if want := fmt.Sprintf("p|alice|%d|2|0|%d", span.Start.Unix(), 2*int64(window.Seconds())); got != want {
			t.Errorf("window row = %s, want %s", got, want)
		}
		if _, err := store.Sweep(t.Context(), schedule.Expiry(span).Add(-time.Millisecond), 10); err != nil {
			t.Error(err)
		}
		if looked, err := store.Look(t.Context(), one.Slots); err != nil || looked[0].Count != 2 {
			t.Errorf("a millisecond before it expires: %+v, %v", looked, err)
		}
	}
	call := hit("alice")
	call.At, call.Origin = at.Add(7*time.Millisecond+999*time.Microsecond), domain.Origin{Method: "GET", Path: "/a\x00b\xff", RequestID: "r"}
	if err := store.Append(t.Context(), []domain.Call{call}); err != nil {
		t.Fatal(err)
	}
	got := ask[string](t, db, `SELECT id||'|'||(called_at AT TIME ZONE 'UTC')||'|'||kind||'|'||allowed||'|'||shadow||'|'||"limit"||'|'||(window_start AT TIME ZONE 'UTC')||'|'||path FROM api_calls`)
	if want := "1|2026-01-01 00:00:30.007|hit|true|false|1|2026-01-01 00:00:00|/a\ufffdb\ufffd"; got != want {
		t.Errorf("call row = %s, want %s", got, want)
	}
}

func TestCallsOfOneMillisecondArePagedWithoutLoss(t *testing.T) { // case 154
	store := openPostgres(t, servicetest.Postgres(t))
	var calls []domain.Call
	for i := range 100 {
		call := hit(fmt.Sprint(i))
		call.At = at.Add(time.Duration(i) * 9 * time.Microsecond)
		calls = append(calls, call)
	}
	if err := store.Append(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for query := (domain.CallQuery{Limit: 10}); ; {
		page, err := store.Calls(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, call := range page {
			keys = append(keys, call.Key)
		}
		query.Before = page[len(page)-1].ID
	}
	if len(keys) != 100 || keys[0] != "99" || keys[99] != "0" {
		t.Errorf("%d calls were paged: %v", len(keys), keys)
	}
}

func TestAWindowThatWasMadeAndNotChargedLooksNeverHit(t *testing.T) {
	dsn := servicetest.Postgres(t)
	store := openPostgres(t, dsn)
	cause := errors.New("no")
	err := store.Do(t.Context(), func(counter domain.Counter, _ domain.AuditLog) error {
		if _, err := counter.Take(t.Context(), []domain.Take{take("k", 1)}); err != nil {
			return err
		}
		return cause
	})
	if !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if n := ask[int](t, rawPostgres(t, dsn), `SELECT count(*) FROM rate_limit_windows WHERE count = 0 AND refused = 0`); n != 1 {
		t.Errorf("%d windows without hits, want 1", n)
	}
	if looked, err := store.Look(t.Context(), take("k", 1).Slots); err != nil || looked[0] != (domain.Tally{}) {
		t.Errorf("looked %+v, %v", looked, err)
	}
	if taken, err := store.Take(t.Context(), []domain.Take{take("k", 1)}); err != nil || !taken[0].Allowed {
		t.Errorf("taken %+v, %v", taken, err)
	}
}

// Work in several steps sees what it did before.
func TestAUnitOfWorkInSeveralSteps(t *testing.T) {
	dsn := servicetest.Postgres(t)
	store := openPostgres(t, dsn)
	if _, err := store.Take(t.Context(), []domain.Take{take("k", 10)}); err != nil {
		t.Fatal(err)
	}
	if err := store.Do(t.Context(), func(counter domain.Counter, log domain.AuditLog) error {
		for want := range int64(3) { // the key is new again after the reset, and another is new in each round
			if err := counter.Reset(t.Context(), "p", "k"); err != nil {
				return err
			}
			taken, err := counter.Take(t.Context(), []domain.Take{take("k", 10), take("k", 10), take(fmt.Sprint("new", want), 10)})
			if err != nil {
				return err
			}
			if got := taken[1].Tallies[0].Count; got != 2 {
				t.Errorf("count = %d, want 2", got)
			}
			if err := log.Append(t.Context(), []domain.Call{hit("k")}); err != nil {
				return err
			}
			calls, err := log.Calls(t.Context(), domain.CallQuery{Limit: 10})
			if err != nil {
				return err
			}
			if int64(len(calls)) != want+1 {
				t.Errorf("%d calls, want %d", len(calls), want+1)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if looked, err := store.Look(t.Context(), take("k", 10).Slots); err != nil || looked[0].Count != 2 {
		t.Errorf("looked %+v, %v", looked, err)
	}
}

// An error that the work swallows is no commit.
func TestWorkThatSwallowsAnErrorIsNotKept(t *testing.T) {
	store := openPostgres(t, servicetest.Postgres(t))
	err := store.Do(t.Context(), func(counter domain.Counter, log domain.AuditLog) error {
		if _, err := counter.Take(t.Context(), []domain.Take{take("k", 1)}); err != nil {
			return err
		}
		counter.Take(t.Context(), []domain.Take{take("k\x00", 1)})
		return log.Append(t.Context(), []domain.Call{hit("k")})
	})
	if err == nil {
		t.Error("the unit of work was kept")
	}
	if looked, err := store.Look(t.Context(), take("k", 1).Slots); err != nil || looked[0].Count != 0 {
		t.Errorf("looked %+v, %v", looked, err)
	}
}

func TestProcessesThatStartTogetherMigratePostgreSQLOnce(t *testing.T) {
	dsn := servicetest.Postgres(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{Migrate: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			if _, err := store.Take(context.Background(), []domain.Take{take("k", 100)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := ask[int](t, rawPostgres(t, dsn), `SELECT count FROM rate_limit_windows`); n != 6 {
		t.Errorf("count = %d, want 6", n)
	}
}

func TestASchemaOfAnotherAgeOnPostgreSQLIsRefused(t *testing.T) {
	dsn := servicetest.Postgres(t)
	store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, use := range []func() error{
		func() error { return store.Ping(t.Context()) },
		func() error { _, err := store.Take(t.Context(), []domain.Take{take("k", 1)}); return err },
		func() error { _, err := store.Look(t.Context(), take("k", 1).Slots); return err },
		func() error { _, err := store.Calls(t.Context(), domain.CallQuery{Limit: 1}); return err },
		func() error { _, err := store.QuotaChanges(t.Context(), 0, 1); return err },
	} {
		if err := use(); err == nil || !strings.Contains(err.Error(), "ratelimitlog migrate") {
			t.Errorf("no schema: %v", err)
		}
	}
	if err := gormstore.MigratePostgres(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if err := store.Ping(t.Context()); err != nil {
		t.Errorf("after the migration: %v", err)
	}
	mustExec(t, rawPostgres(t, dsn), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	if err := store.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("a newer schema: %v", err)
	}
}

func TestDSNsOfPostgreSQLThatMakeNoSenseAreRefusedWithoutTheirPassword(t *testing.T) {
	for _, dsn := range []string{
		"", "sqlite:x", "host=localhost password=geheim", "postgres:geheim",
		"postgres://u:geh/geheim@localhost/db", "postgres://u:geheim@localhost:port/db", "postgres://u:geheim@localhost/db?sslmode=geheim",
		"postgres://u:%zzgeheim@localhost/db", "postgres://u:geheim@[localhost/db", "postgres://u@localhost/db?password=geheim&connect_timeout=geheim",
		"postgres://u:geheim@localhost/db?default_query_exec_mode=x",
	} {
		store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{})
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%q: %v", dsn, err)
		}
		if err == nil {
			store.Close()
		} else if strings.Contains(err.Error(), "geh") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// A window that somebody makes while its key is being reset is forgotten if its
// calls are in the log before that of the reset, and stays if they come after.
func TestAResetForgetsWhatTheLogHasBeforeIt(t *testing.T) { // case 74
	dsn := servicetest.Postgres(t)
	resetting, other := openPostgres(t, dsn), openPostgres(t, dsn)
	reset := func(meanwhile func(commit func())) {
		t.Helper()
		commit, committed := make(chan struct{}), make(chan error)
		removed := make(chan struct{})
		go func() {
			committed <- resetting.Do(context.Background(), func(counter domain.Counter, log domain.AuditLog) error {
				if err := counter.Reset(context.Background(), "p", "k"); err != nil {
					return err
				}
				if _, err := counter.Look(context.Background(), take("k", 10).Slots); err != nil { // what was there is removed by now
					return err
				}
				close(removed)
				<-commit
				return log.Append(context.Background(), []domain.Call{{Kind: domain.CallReset, At: at, Policy: "p", Key: "k", Allowed: true}})
			})
		}()
		<-removed
		meanwhile(func() {
			close(commit)
			if err := <-committed; err != nil {
				t.Error(err)
			}
		})
	}
	check := func(want int64) {
		t.Helper()
		looked, err := other.Look(t.Context(), take("k", 10).Slots)
		if err != nil || looked[0].Count != want {
			t.Fatalf("looked %+v, %v; want %d", looked, err, want)
		}
		if n := ask[int64](t, rawPostgres(t, dsn), `SELECT count(*) FROM api_calls WHERE id > (SELECT max(id) FROM api_calls WHERE kind = 'reset')`); n != want {
			t.Errorf("the log has %d hits since the reset, want %d", n, want)
		}
	}
	reset(func(commit func()) {
		if err := charge(t.Context(), other, "k"); err != nil {
			t.Error(err)
		}
		commit()
	})
	check(0)
	reset(func(commit func()) {
		if err := other.Do(t.Context(), func(counter domain.Counter, log domain.AuditLog) error {
			if _, err := counter.Take(t.Context(), []domain.Take{take("k", 10)}); err != nil {
				return err
			}
			commit()
			return log.Append(t.Context(), []domain.Call{hit("k")})
		}); err != nil {
			t.Error(err)
		}
	})
	check(1)
}
