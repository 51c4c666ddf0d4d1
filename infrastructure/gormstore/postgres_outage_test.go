package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/domain/storetest"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// charge takes a unit and logs it.
func charge(ctx context.Context, store domain.UnitOfWork, key string) error {
	return store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
		if _, err := counter.Take(ctx, []domain.Take{take(key, 1<<40)}); err != nil {
			return err
		}
		return log.Append(ctx, []domain.Call{hit(key)})
	})
}

// eventually tries until it works.
func eventually(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestTheServerMayComeUpLater(t *testing.T) {
	server := servicetest.NewPostgresServer(t)
	dsn := strings.Replace(server.DSN(), "postgres@", "postgres:geheim@", 1)
	store := openPostgres(t, dsn)
	for range 3 {
		err := charge(t.Context(), store, "k")
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Fatalf("without a server: %v", err)
		}
		if err := store.Ping(t.Context()); err == nil {
			t.Error("ping without a server")
		}
	}
	server.Start()
	if err := store.Ping(t.Context()); err != nil { // which migrates
		t.Errorf("ping: %v", err)
	}
	if err := charge(t.Context(), store, "k"); err != nil {
		t.Error(err)
	}
}

// A server that hangs costs each call its deadline and no more, and leaves no
// goroutines behind.
func TestAServerThatHangsCostsTheDeadline(t *testing.T) {
	server := servicetest.NewPostgresServer(t)
	server.Start()
	store := openPostgres(t, server.DSN())
	if err := charge(t.Context(), store, "k"); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	const timeout = 200 * time.Millisecond
	uses := map[string]func(context.Context) error{
		"unit of work": func(ctx context.Context) error { return charge(ctx, store, "k") },
		"commit": func(ctx context.Context) error { // hangs between the steps of the work
			server.Resume()
			ran := false
			err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
				_, err := counter.Take(ctx, []domain.Take{take("other", 1)})
				ran = err == nil
				server.Hang()
				return err
			})
			if !ran {
				server.Hang()
			}
			return err
		},
		"look":          func(ctx context.Context) error { _, err := store.Look(ctx, take("k", 1).Slots); return err },
		"calls":         func(ctx context.Context) error { _, err := store.Calls(ctx, domain.CallQuery{Limit: 1}); return err },
		"reset":         func(ctx context.Context) error { return store.Reset(ctx, "p", "none") },
		"sweep":         func(ctx context.Context) error { _, err := store.Sweep(ctx, at, 1); return err },
		"quota changes": func(ctx context.Context) error { _, err := store.QuotaChanges(ctx, 0, 1); return err },
		"change quota": func(ctx context.Context) error {
			return store.ChangeQuota(ctx, domain.QuotaChange{Quota: domain.Quota{Policy: "p", Key: "k"}}, hit("k"))
		},
		"ping": store.Ping,
	}
	server.Hang()
	rounds := func(n int) {
		for range n {
			for name, use := range uses {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				begun := time.Now()
				err := use(ctx)
				cancel()
				if took := time.Since(begun); err == nil || took > timeout+3*time.Second {
					t.Errorf("%s: %v after %s", name, err, took)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	rounds(3)
	t.Logf("goroutines: %d before, %d while the server hangs", before, runtime.NumGoroutine())
	server.Resume()
	eventually(t, "after the server went on", func(ctx context.Context) error { return charge(ctx, store, "k") })
	// What the server was told before, it may have done.
	looked, err := store.Look(t.Context(), take("k", 1<<40).Slots)
	if err != nil || looked[0].Count < 2 {
		t.Errorf("looked %+v, %v", looked, err)
	}
	if n := ask[int64](t, rawPostgres(t, server.DSN()), `SELECT count(*) FROM api_calls WHERE key = 'k' AND kind = 'hit'`); n < looked[0].Count {
		t.Errorf("the window has %d, the log %d calls", looked[0].Count, n)
	}
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+12; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// Another client that hangs with a lock keeps a hit waiting for its deadline, and
// does not keep the lock for longer than the server was told.
func TestAClientThatHangsWithALockIsLetGo(t *testing.T) {
	dsn := servicetest.Postgres(t)
	hung, store := openPostgres(t, dsn), openPostgres(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := hung.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
		if _, err := counter.Take(ctx, []domain.Take{take("k", 10)}); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := charge(short, store, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a hit on the window that is locked: %v", err)
		}
		if err := charge(t.Context(), store, "another"); err != nil {
			t.Errorf("a hit on another window: %v", err)
		}
		if err := charge(t.Context(), store, "k"); err != nil { // while the other still sits there
			t.Errorf("the lock was not let go: %v", err)
		}
		return log.Append(ctx, []domain.Call{hit("k")})
	})
	if err == nil {
		t.Error("a unit of work was kept after its deadline")
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if looked, err := store.Look(t.Context(), take("k", 10).Slots); err != nil || looked[0].Count != 1 {
		t.Errorf("looked %+v, %v", looked, err)
	}
}

// kill -9 under load: what was answered is there, counter and log agree, and the
// store goes on by itself once the server is back.
func TestAServerThatIsKilledLosesNoAnsweredHit(t *testing.T) { // case 127
	server := servicetest.NewPostgresServer(t)
	server.Start()
	stores := []*gormstore.Postgres{openPostgres(t, server.DSN()), openPostgres(t, server.DSN())}
	var answered, failed atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 4 {
		store := stores[i%2]
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if err := charge(ctx, store, fmt.Sprint(n%3)); err == nil {
					answered.Add(1)
				} else {
					failed.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}
		})
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		server.Kill()
		time.Sleep(100 * time.Millisecond)
		server.Start()
		for i, store := range stores {
			eventually(t, fmt.Sprintf("store %d after the restart", i), func(ctx context.Context) error { return charge(ctx, store, "x") })
		}
	}
	close(stop)
	group.Wait()
	db := rawPostgres(t, server.DSN())
	counted := ask[int64](t, db, `SELECT sum(count)::bigint FROM rate_limit_windows WHERE key <> 'x'`)
	logged := ask[int64](t, db, `SELECT count(*) FROM api_calls WHERE key <> 'x'`)
	if counted < answered.Load() || counted != logged {
		t.Errorf("%d hits were answered, %d are counted, %d logged", answered.Load(), counted, logged)
	}
	t.Logf("%d answered, %d failed, %d counted", answered.Load(), failed.Load(), counted)
}

// After a restart every idle connection is dead. Hits do not notice.
func TestAHitAfterARestartDoesNotFail(t *testing.T) {
	server := servicetest.NewPostgresServer(t)
	server.Start()
	store := openPostgres(t, server.DSN())
	for range 3 {
		var group sync.WaitGroup
		for i := range 4 { // fills the pool
			group.Go(func() {
				if err := charge(context.Background(), store, fmt.Sprint(i)); err != nil {
					t.Errorf("a hit after a restart: %v", err)
				}
			})
		}
		group.Wait()
		server.Kill()
		server.Start()
	}
}

func TestThroughAProxyThatPoolsTransactions(t *testing.T) {
	server := servicetest.NewPostgresServer(t)
	server.Start()
	if err := gormstore.MigratePostgres(t.Context(), server.DSN()); err != nil {
		t.Fatal(err)
	}
	dsn := servicetest.With(t, server.PgBouncer(t), "default_query_exec_mode", "exec")
	storetest.Run(t, func(t *testing.T) storetest.Store {
		store, err := gormstore.OpenPostgres(dsn, gormstore.PostgresOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	})
}
