package gormstore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

// BenchmarkUnitOfWork is the store's part of a hit: 128 hits on 1000 keys a commit.
func BenchmarkUnitOfWork(b *testing.B) {
	store, err := gormstore.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), gormstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	schedule, err := domain.Fixed(24 * time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	window := schedule.At(at)
	const batch = 128
	takes, calls := make([]domain.Take, batch), make([]domain.Call, batch)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for i := range takes {
			key := fmt.Sprintf("key-%d", n*7919%1000)
			n++
			takes[i] = domain.Take{Cost: 1, Slots: []domain.Slot{{
				Policy: "default", Key: key, Window: window, Limit: 999999999, Expires: schedule.Expiry(window),
			}}}
			calls[i] = domain.Call{Kind: domain.CallHit, At: at, Policy: "default", Key: key, Cost: 1, Hits: 1, Allowed: true,
				Limit: 999999999, WindowStart: window.Start, Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "0123456789abcdef0123456789abcdef"}}
		}
		err := store.Do(b.Context(), func(counter domain.Counter, log domain.AuditLog) error {
			if _, err := counter.Take(b.Context(), takes); err != nil {
				return err
			}
			return log.Append(b.Context(), calls)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/hit")
}
