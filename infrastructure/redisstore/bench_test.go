package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	benchBatch = 128
	benchKeys  = 1000
)

// BenchmarkTake takes batches of 128 hits on 1000 keys.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name     string
		policies []string
		limit    int64
	}{
		{"fixed", []string{"fixed 1h"}, domain.MaxUnits}, {"refused", []string{"fixed 1h"}, 1},
		{"sliding", []string{"sliding 1h"}, domain.MaxUnits}, {"two policies", []string{"fixed 1h", "fixed 1m"}, domain.MaxUnits},
	} {
		b.Run(c.name, func(b *testing.B) {
			store := newNamespace(b).open(b)
			all := make([]domain.Take, benchKeys)
			for i := range all {
				all[i].Cost = 1
				for _, text := range c.policies {
					all[i].Slots = append(all[i].Slots, slotAt(text, fmt.Sprint("key ", i), c.limit, schedule(b, text), newYear))
				}
			}
			takes := make([]domain.Take, benchBatch)
			for b.Loop() {
				for i := range takes {
					takes[i] = all[rand.IntN(benchKeys)]
				}
				if _, err := store.Take(context.Background(), takes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/hit")
		})
	}
}

// BenchmarkIncrement is what the store is compared with: 128 calls of a script that
// increments a number and sets its expiry, one after the other and in one pipeline.
func BenchmarkIncrement(b *testing.B) {
	increment := redis.NewScript(`
		local n = redis.call('INCR', KEYS[1])
		if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
		return n`)
	key := func(n *namespace) []string { return []string{fmt.Sprintf("%s:%d", n.prefix, rand.IntN(benchKeys))} }
	ctx := context.Background()
	b.Run("single", func(b *testing.B) {
		n := newNamespace(b)
		increment.Load(ctx, n.client)
		for b.Loop() {
			for range benchBatch {
				if err := increment.EvalSha(ctx, n.client, key(n), 3600000).Err(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/hit")
	})
	b.Run("pipelined", func(b *testing.B) {
		n := newNamespace(b)
		increment.Load(ctx, n.client)
		for b.Loop() {
			pipe := n.client.Pipeline()
			for range benchBatch {
				increment.EvalSha(ctx, pipe, key(n), 3600000)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/hit")
	})
}
