package ratelimitlog_test

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// database opens the file as sqlite3 on the command line would.
func database(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+strings.TrimPrefix(dsn, "sqlite:")+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustExec(t testing.TB, dsn, query string) {
	t.Helper()
	db := database(t, dsn)
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// count reads rows of a text and a number.
func count(t testing.TB, dsn, query string) map[string]int64 {
	t.Helper()
	db := database(t, dsn)
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	counts := map[string]int64{}
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		counts[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}
