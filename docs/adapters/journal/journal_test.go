//go:build linux || darwin || freebsd || netbsd || openbsd

package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/nene2-ft/ratelimitlog/docs/adapters/journal"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/domain/storetest"
)

func open(t testing.TB, path string) *journal.Counter {
	counter, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counter.Close() })
	return counter
}

func TestConformance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	storetest.Counter(t, func(t *testing.T) domain.Counter { return open(t, path) })
}

func BenchmarkCounter(b *testing.B) {
	storetest.BenchmarkCounter(b, func(b *testing.B) domain.Counter { return open(b, filepath.Join(b.TempDir(), "counters")) })
}
