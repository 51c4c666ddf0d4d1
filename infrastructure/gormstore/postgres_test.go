package gormstore_test

import (
	"testing"

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

func TestConformanceOfPostgreSQL(t *testing.T) { // case 148 among others
	for name, mode := range map[string]string{"prepared": "cache_statement", "unprepared": "exec"} {
		t.Run(name, func(t *testing.T) {
			dsn := servicetest.With(t, servicetest.Postgres(t), "default_query_exec_mode", mode)
			storetest.Run(t, func(t *testing.T) storetest.Store { return openPostgres(t, dsn) })
		})
	}
}
