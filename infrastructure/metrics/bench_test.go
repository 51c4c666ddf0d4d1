package metrics

import (
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// What a decision pays to be counted, beside two readings of the clock.
func BenchmarkDecided(b *testing.B) {
	m := New("test", nil)
	d := domain.Decision{Allowed: true, Policies: []domain.PolicyDecision{{Policy: "default"}}}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Decided(d, 50*time.Microsecond)
		}
	})
}

func BenchmarkResponded(b *testing.B) {
	m := New("test", nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Responded("/ping", 200)
		}
	})
}
