package gormstore_test

import (
	"path/filepath"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain/storetest"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

func open(t testing.TB, dsn string) *gormstore.Store {
	t.Helper()
	store, err := gormstore.Open(t.Context(), dsn, gormstore.Options{})
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

// newDSN names a file that does not exist yet.
func newDSN(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") }

func TestConformanceOfAFile(t *testing.T) {
	dsn := newDSN(t)
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, dsn) })
}

func TestConformanceOfADatabaseInMemory(t *testing.T) {
	store := open(t, "sqlite::memory:") // a second handle would have a database of its own
	storetest.Run(t, func(t *testing.T) storetest.Store { return store })
}

func TestConformanceOfAChainedFile(t *testing.T) {
	dsn := newDSN(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		store, err := gormstore.Open(t.Context(), dsn, gormstore.Options{TamperEvident: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	})
}
