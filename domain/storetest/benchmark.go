package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Benchmark measures all ports. open returns a handle on a store that need not be
// empty; it closes it when the benchmark ends.
func Benchmark(b *testing.B, open func(b *testing.B) Store) {
	BenchmarkCounter(b, func(b *testing.B) domain.Counter { return open(b) })
	BenchmarkAuditLog(b, func(b *testing.B) domain.AuditLog { return open(b) })
	BenchmarkUnitOfWork(b, open)
}

// batch is how many hits a limiter joins into one commit under load.
const batch = 128

// BenchmarkCounter measures a [domain.Counter]. For open see [Benchmark].
func BenchmarkCounter(b *testing.B, open func(b *testing.B) domain.Counter) {
	b.Run("Take one", func(b *testing.B) {
		counter, key := open(b), draw("key")
		takes := []domain.Take{take(1, slot("p", key, domain.Unlimited, at))}
		measure(b, 1, func() error { return takeAll(counter, takes) })
	})
	b.Run("Take one in parallel", func(b *testing.B) {
		counter, keys := open(b), manyKeys()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				if err := takeAll(counter, []domain.Take{take(1, slot("p", keys[n*7919%len(keys)], domain.Unlimited, at))}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	for _, c := range []struct {
		name  string
		slots func(key string) []domain.Slot
	}{
		{"allowed", func(key string) []domain.Slot { return []domain.Slot{slot("p", key, domain.Unlimited, at)} }},
		{"refused", func(key string) []domain.Slot { return []domain.Slot{slot("p", key, 0, at)} }},
		{"of two policies", func(key string) []domain.Slot {
			return []domain.Slot{slot("p", key, domain.Unlimited, at), slot("q", key, domain.Unlimited, at)}
		}},
		{"sliding", func(key string) []domain.Slot { return []domain.Slot{sliding("p", key, domain.Unlimited, 1, 3)} }},
	} {
		b.Run(fmt.Sprintf("Take %d %s", batch, c.name), func(b *testing.B) {
			counter, keys, n := open(b), manyKeys(), 0
			measure(b, batch, func() error {
				takes := make([]domain.Take, batch)
				for i := range takes {
					takes[i] = take(1, c.slots(keys[n*7919%len(keys)])...)
					n++
				}
				return takeAll(counter, takes)
			})
		})
	}
	b.Run(fmt.Sprintf("Take %d of new keys", batch), func(b *testing.B) {
		counter := open(b)
		measure(b, batch, func() error {
			takes := make([]domain.Take, batch)
			for i := range takes {
				takes[i] = take(1, slot("p", draw("key"), 10, at))
			}
			return takeAll(counter, takes)
		})
	})
	b.Run("Look", func(b *testing.B) {
		counter, s := open(b), slot("p", draw("key"), 10, at)
		if err := takeAll(counter, []domain.Take{take(1, s)}); err != nil {
			b.Fatal(err)
		}
		measure(b, 1, func() error { _, err := counter.Look(b.Context(), []domain.Slot{s}); return err })
	})
}

// BenchmarkAuditLog measures a [domain.AuditLog]. For open see [Benchmark].
func BenchmarkAuditLog(b *testing.B, open func(b *testing.B) domain.AuditLog) {
	b.Run(fmt.Sprintf("Append %d", batch), func(b *testing.B) {
		log, calls := open(b), make([]domain.Call, batch)
		for i := range calls {
			calls[i] = allowed("p", draw("key"), "/ping")
		}
		measure(b, batch, func() error { return log.Append(b.Context(), calls) })
	})
	b.Run("Calls, a page of 100 of 10000", func(b *testing.B) {
		log, keys := open(b), manyKeys()
		calls := make([]domain.Call, 10_000)
		for i := range calls {
			calls[i] = allowed("p", keys[i%len(keys)], "/ping")
		}
		if err := log.Append(b.Context(), calls); err != nil {
			b.Fatal(err)
		}
		measure(b, 1, func() error { _, err := log.Calls(b.Context(), domain.CallQuery{Limit: 100}); return err })
	})
}

// BenchmarkUnitOfWork measures the store's part of a hit: so many hits on 1000 keys
// a commit, each with its call. For open see [Benchmark].
func BenchmarkUnitOfWork(b *testing.B, open func(b *testing.B) Store) {
	b.Run(fmt.Sprintf("Do %d hits", batch), func(b *testing.B) {
		store, keys, n := open(b), manyKeys(), 0
		takes, calls := make([]domain.Take, batch), make([]domain.Call, batch)
		measure(b, batch, func() error {
			for i := range takes {
				key := keys[n*7919%len(keys)]
				n++
				takes[i] = take(1, slot("default", key, domain.MaxUnits, at))
				calls[i] = allowed("default", key, "/ping")
				calls[i].RequestID = "0123456789abcdef0123456789abcdef"
			}
			return store.Do(b.Context(), func(counter domain.Counter, log domain.AuditLog) error {
				if err := takeAll(counter, takes); err != nil {
					return err
				}
				return log.Append(b.Context(), calls)
			})
		})
	})
}

func manyKeys() []string {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = draw("key")
	}
	return keys
}

func takeAll(counter domain.Counter, takes []domain.Take) error {
	_, err := counter.Take(context.Background(), takes)
	return err
}

// measure runs f, which does n things, and reports the time of one.
func measure(b *testing.B, n int, f func() error) {
	b.Helper()
	b.ReportAllocs()
	runs := 0
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
		runs++
	}
	if n > 1 {
		b.ReportMetric(float64(b.Elapsed())/float64(time.Nanosecond)/float64(runs*n), "ns/each")
	}
}
