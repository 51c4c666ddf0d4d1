package gormstore

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// sizes are the numbers of rows that the batch statements come in. A batch is cut
// into these, largest first, so that the statements of a store are few and are
// all prepared once.
var sizes = [...]int{128, 32, 8, 1}

// statement is one SQL statement prepared in each of the sizes.
type statement [len(sizes)]*sql.Stmt

// writeStatements are those that only the writing connection runs.
type writeStatements struct {
	upsertWindows statement
	insertCalls   statement // of newCallRow
	insertFull    statement // of fullCallRow
}

func prepareWrites(ctx context.Context, db *gorm.DB, pool *sql.DB) (w writeStatements, err error) {
	if w.upsertWindows, err = prepare(ctx, pool, composeUpsert(db)); err != nil {
		return w, err
	}
	if w.insertCalls, err = prepare(ctx, pool, composeInsert[newCallRow](db)); err != nil {
		return w, err
	}
	w.insertFull, err = prepare(ctx, pool, composeInsert[fullCallRow](db))
	return w, err
}

// replaceNumbers makes of an insert of windows an upsert.
var replaceNumbers = clause.OnConflict{
	Columns:   []clause.Column{{Name: "policy"}, {Name: "key"}, {Name: "schedule"}, {Name: "window_start"}},
	DoUpdates: clause.AssignmentColumns([]string{"count", "refused"}),
}

// composeUpsert has GORM compose the upsert of n windows. Windows are written
// with the numbers that were decided under the write lock, not with differences.
func composeUpsert(db *gorm.DB) func(n int) (string, error) {
	return func(n int) (string, error) {
		rows := make([]windowRow, n)
		tx := db.Session(&gorm.Session{DryRun: true}).Clauses(replaceNumbers).Create(&rows)
		return tx.Statement.SQL.String(), tx.Error
	}
}

// composeInsert has GORM compose the insert of n rows.
func composeInsert[Row any](db *gorm.DB) func(n int) (string, error) {
	return func(n int) (string, error) {
		rows := make([]Row, n)
		tx := db.Session(&gorm.Session{DryRun: true}).Create(&rows)
		return tx.Statement.SQL.String(), tx.Error
	}
}

// prepareTallies prepares the read of n windows. It returns the ordinal of each
// window that exists, with its numbers.
func prepareTallies(ctx context.Context, pool *sql.DB) (statement, error) {
	return prepare(ctx, pool, func(n int) (string, error) {
		return `WITH wanted(n, policy, key, schedule, window_start) AS (VALUES (?, ?, ?, ?, ?)` +
			strings.Repeat(`, (?, ?, ?, ?, ?)`, n-1) + `)
SELECT wanted.n, w.count, w.refused FROM wanted JOIN rate_limit_windows AS w
ON w.policy = wanted.policy AND w.key = wanted.key AND w.schedule = wanted.schedule AND w.window_start = wanted.window_start`, nil
	})
}

func prepare(ctx context.Context, pool *sql.DB, compose func(n int) (string, error)) (s statement, err error) {
	for i, n := range sizes {
		query, err := compose(n)
		if err != nil {
			return s, err
		}
		if s[i], err = pool.PrepareContext(ctx, query); err != nil {
			return s, err
		}
	}
	return s, nil
}

// runner runs statements, one after the other, in a transaction or without. It
// keeps what they can share: the values' memory, and the texts of times, of which
// the rows of a batch have few.
type runner struct {
	tx     *sql.Tx // nil outside a transaction
	values []any

	secondOf, millisecondOf map[int64]any // texts by Unix time, boxed for values
}

// run runs the statement over n rows. bind appends the values of row i, scan (nil
// for statements without a result) reads one row of the answer.
//
// Statements that return nothing are queried too: the driver binds and runs a
// query in one crossing into C, an exec in one for each value.
func (s *statement) run(ctx context.Context, r *runner, n int, bind func(values []any, i int) []any, scan func(*sql.Rows) error) error {
	if r.tx != nil {
		ctx = context.WithoutCancel(ctx) // see begin
	}
	for done := 0; done < n; {
		at := 0
		for sizes[at] > n-done {
			at++
		}
		r.values = r.values[:0]
		for i := done; i < done+sizes[at]; i++ {
			r.values = bind(r.values, i)
		}
		stmt := s[at]
		if r.tx != nil {
			stmt = r.tx.StmtContext(ctx, stmt)
		}
		if err := drain(ctx, stmt, r.values, scan); err != nil {
			return err
		}
		done += sizes[at]
	}
	return nil
}

func drain(ctx context.Context, stmt *sql.Stmt, values []any, scan func(*sql.Rows) error) error {
	rows, err := stmt.QueryContext(ctx, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// second is the text of a time in whole seconds.
func (r *runner) second(t time.Time) any { return remember(&r.secondOf, t.Unix(), t, seconds) }

// millisecond is the text of a time to the millisecond.
func (r *runner) millisecond(t time.Time) any {
	return remember(&r.millisecondOf, t.UnixMilli(), t, milliseconds)
}

func remember(texts *map[int64]any, unix int64, t time.Time, layout string) any {
	text, known := (*texts)[unix]
	if !known {
		if *texts == nil || len(*texts) >= 64 {
			*texts = make(map[int64]any, 64)
		}
		text = t.UTC().Format(layout)
		(*texts)[unix] = text
	}
	return text
}
