package gormstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// BenchmarkUnitOfWork is the store's part of a hit: 128 hits on 1000 keys a commit.
func BenchmarkUnitOfWork(b *testing.B) {
	store, err := gormstore.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), gormstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	benchmarkUnits(b, 128, store)
}

// BenchmarkPostgresUnitOfWork is the same on PostgreSQL, by one process and by
// several at a time.
func BenchmarkPostgresUnitOfWork(b *testing.B) {
	for _, handles := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("handles=%d", handles), func(b *testing.B) {
			dsn := servicetest.Postgres(b)
			var stores []domain.UnitOfWork
			for range handles {
				stores = append(stores, openPostgres(b, dsn))
			}
			benchmarkUnits(b, 128, stores...)
		})
	}
}

// BenchmarkPostgresUpsertPerHit is what a limiter without group commits does: for
// each hit a transaction with one upsert and one row of the log, on 16 connections.
func BenchmarkPostgresUpsertPerHit(b *testing.B) {
	dsn := servicetest.Postgres(b)
	if err := openPostgres(b, dsn).Ping(b.Context()); err != nil {
		b.Fatal(err)
	}
	pool, err := pgxpool.New(b.Context(), servicetest.With(b, dsn, "pool_max_conns", "16"))
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for n := 0; pb.Next(); n++ {
			tx, err := pool.Begin(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			key := fmt.Sprintf("key-%d", n*7919%1000)
			var count int64
			err = tx.QueryRow(ctx, `INSERT INTO rate_limit_windows VALUES ('default', $1, 'fixed 24h', $2, 1, 0, $3)
ON CONFLICT (policy, key, schedule, window_start) DO UPDATE SET count = rate_limit_windows.count + 1 RETURNING count`, key, at, at.Add(48*time.Hour)).Scan(&count)
			if err == nil {
				_, err = tx.Exec(ctx, `INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id)
VALUES ($1, 'hit', 'default', $2, 1, 1, true, false, $3, 0, 999999999, $4, 'GET', '/ping', '0123456789abcdef0123456789abcdef')`, at, key, count, at)
			}
			if err == nil {
				err = tx.Commit(ctx)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/hit")
}

// benchmarkUnits has each of the stores commit units of batch hits on 1000 keys.
func benchmarkUnits(b *testing.B, batch int, stores ...domain.UnitOfWork) {
	schedule, err := domain.Fixed(24 * time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	window := schedule.At(at)
	unit := func(store domain.UnitOfWork, n int) error {
		takes, calls := make([]domain.Take, batch), make([]domain.Call, batch)
		for i := range takes {
			key := fmt.Sprintf("key-%d", (n+i)*7919%1000)
			takes[i] = domain.Take{Cost: 1, Slots: []domain.Slot{{
				Policy: "default", Key: key, Window: window, Limit: 999999999, Expires: schedule.Expiry(window),
			}}}
			calls[i] = domain.Call{Kind: domain.CallHit, At: at, Policy: "default", Key: key, Cost: 1, Hits: 1, Allowed: true,
				Limit: 999999999, WindowStart: window.Start, Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "0123456789abcdef0123456789abcdef"}}
		}
		return store.Do(b.Context(), func(counter domain.Counter, log domain.AuditLog) error {
			if _, err := counter.Take(b.Context(), takes); err != nil {
				return err
			}
			return log.Append(b.Context(), calls)
		})
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		var group sync.WaitGroup
		for _, store := range stores[1:] {
			group.Go(func() {
				if err := unit(store, n); err != nil {
					b.Error(err)
				}
			})
		}
		if err := unit(stores[0], n); err != nil {
			b.Error(err)
		}
		group.Wait()
		n += batch
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*len(stores)), "ns/hit")
}
