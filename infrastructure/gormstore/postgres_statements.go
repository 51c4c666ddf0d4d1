package gormstore

import (
	"strings"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// pgStatements are the statements of the hot path that GORM composes. Each takes any
// number of rows: an array for each column.
type pgStatements struct {
	makeWindows   string // those that are missing
	upsertWindows string
	insertCalls   string // of newCallRow
	insertFull    string // of fullCallRow
}

func composePostgres(db *gorm.DB) (s pgStatements, err error) {
	if s.makeWindows, err = composeRows(db, &windowRow{}, clause.OnConflict{DoNothing: true}); err != nil {
		return s, err
	}
	if s.upsertWindows, err = composeRows(db, &windowRow{}, replaceNumbers); err != nil {
		return s, err
	}
	if s.insertCalls, err = composeRows(db, &newCallRow{}); err != nil {
		return s, err
	}
	s.insertFull, err = composeRows(db, &fullCallRow{})
	return s, err
}

// readWindows returns the ordinal of each window that exists, from 1, with its numbers;
// lockWindows locks them too, one after the other in the order of the primary key. A look
// into the index for each window is the right plan however many rows there are; the
// planner, which may last have seen the table when it was small, has no other choice.
const (
	readWindows = windows + `) AS w`
	lockWindows = windows + ` FOR UPDATE) AS w`

	windows = `SELECT wanted.n, w.count, w.refused FROM (
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) WITH ORDINALITY AS all_wanted(policy, key, schedule, window_start, n)
ORDER BY policy COLLATE "C", key COLLATE "C", schedule COLLATE "C", window_start) AS wanted
CROSS JOIN LATERAL (SELECT count, refused FROM rate_limit_windows AS w
WHERE w.policy = wanted.policy AND w.key = wanted.key AND w.schedule = wanted.schedule AND w.window_start = wanted.window_start OFFSET 0`
)

const (
	beginPostgres = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`
	// settle has the server give up too, also if it never hears that the client did,
	// read windows by their index, and compile no statement, which takes it longer than
	// any of these.
	settle = `SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

	// doNotWait has the commit of a transaction not wait for the disk. waitForDisk is a
	// transaction that leaves a mark in the server's log, and so waits until all
	// before it is on the disk, and at the standbys that the server waits for.
	doNotWait   = `SET LOCAL synchronous_commit = off`
	waitForDisk = `SELECT pg_logical_emit_message(true, 'ratelimitlog', '')`

	// forget and forgetNew remove the windows of keys under policies: all of them,
	// and those of others that nobody is charging at this moment.
	forget    = forgetHead + forgetOrder + deleteDoomed
	forgetNew = forgetHead + ` WHERE w.xmin <> pg_current_xact_id()::xid` + forgetOrder + ` SKIP LOCKED` + deleteDoomed

	forgetHead = `WITH doomed AS MATERIALIZED (
SELECT w.policy, w.key, w.schedule, w.window_start FROM rate_limit_windows AS w
JOIN unnest($1::text[], $2::text[]) AS wanted(policy, key) ON w.policy = wanted.policy AND w.key = wanted.key`
	forgetOrder = ` ORDER BY w.policy, w.key, w.schedule, w.window_start FOR UPDATE OF w`

	sweepExpired = `WITH doomed AS MATERIALIZED (
SELECT policy, key, schedule, window_start FROM rate_limit_windows
WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED` + deleteDoomed

	deleteDoomed = `) DELETE FROM rate_limit_windows AS w USING doomed
WHERE w.policy = doomed.policy AND w.key = doomed.key AND w.schedule = doomed.schedule AND w.window_start = doomed.window_start`

	// Who appends to the log holds a lock from before its IDs are drawn until its
	// commit can be seen, so that IDs are in the order of commits. It is taken last,
	// in one message with the commit, and so is never held while a client is waited for.
	lockLog    = `SELECT pg_advisory_xact_lock(1920102252, 'api_calls'::regclass::oid::integer)`
	lockQuotas = `SELECT pg_advisory_xact_lock(1920102252, 'rate_limit_quotas'::regclass::oid::integer)`
)

// composeRows has GORM compose an insert of rows that come as an array for each
// column, in the order of the model's fields.
func composeRows(db *gorm.DB, model any, more ...clause.Interface) (string, error) {
	stmt := db.Session(&gorm.Session{NewDB: true, DryRun: true}).Model(model).Statement
	if err := stmt.Parse(model); err != nil {
		return "", err
	}
	stmt.AddClause(clause.Insert{Table: clause.Table{Name: stmt.Table}})
	stmt.AddClause(rowsFromArrays{stmt.Schema.Fields})
	for _, c := range more {
		stmt.AddClause(c)
	}
	stmt.Build("INSERT", "VALUES", "ON CONFLICT")
	return stmt.SQL.String(), stmt.Error
}

// rowsFromArrays is a clause in the place of VALUES.
type rowsFromArrays struct{ fields []*schema.Field }

// Name implements [clause.Interface].
func (rowsFromArrays) Name() string { return "VALUES" }

// MergeClause implements [clause.Interface].
func (r rowsFromArrays) MergeClause(c *clause.Clause) { c.Name, c.Expression = "", r }

// arrayOf is the type of an array of what a field holds.
var arrayOf = map[schema.DataType]string{
	schema.String: "::text[]", schema.Int: "::bigint[]", schema.Bool: "::boolean[]", schema.Time: "::timestamptz[]",
}

// Build implements [clause.Expression].
func (r rowsFromArrays) Build(builder clause.Builder) {
	names := func(before, after string) {
		builder.WriteString(before)
		for i, field := range r.fields {
			if i > 0 {
				builder.WriteByte(',')
			}
			builder.WriteQuoted(clause.Column{Name: field.DBName})
		}
		builder.WriteString(after)
	}
	names("(", ") SELECT ")
	names("", " FROM unnest(")
	for i, field := range r.fields {
		if i > 0 {
			builder.WriteByte(',')
		}
		builder.AddVar(builder, nil)
		builder.WriteString(arrayOf[field.DataType])
	}
	names(") WITH ORDINALITY AS new(", `,"n") ORDER BY "n"`)
}

// identities are the arrays that name windows.
func identities(windows []domain.LedgerWindow) []any {
	policies, keys := make([]string, len(windows)), make([]string, len(windows))
	schedules, starts := make([]string, len(windows)), make([]time.Time, len(windows))
	for i := range windows {
		w := &windows[i]
		policies[i], keys[i], schedules[i], starts[i] = w.Policy, w.Key, w.Schedule, w.Start
	}
	return []any{policies, keys, schedules, starts}
}

// windowArrays are the windows' values in the order of windowRow.
func windowArrays(windows []domain.LedgerWindow) []any {
	counts, refused, expires := make([]int64, len(windows)), make([]int64, len(windows)), make([]time.Time, len(windows))
	for i := range windows {
		w := &windows[i]
		counts[i], refused[i], expires[i] = w.Tally.Count, w.Tally.Refused, w.Expires
	}
	return append(identities(windows), counts, refused, expires)
}

// callArrays are the calls' values in the order of newCallRow.
func callArrays(calls []domain.Call) []any {
	n := len(calls)
	calledAt, kinds, policies, keys := make([]time.Time, n), make([]string, n), make([]string, n), make([]string, n)
	costs, hits, allowed, shadow := make([]int64, n), make([]int64, n), make([]bool, n), make([]bool, n)
	counts, refused, limits, starts := make([]int64, n), make([]int64, n), make([]*int64, n), make([]*time.Time, n)
	methods, paths, requests, schedules := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range calls {
		c := &calls[i]
		calledAt[i], kinds[i], policies[i], keys[i] = time.UnixMilli(c.At.UnixMilli()), string(c.Kind), c.Policy, c.Key
		costs[i], hits[i], allowed[i], shadow[i] = c.Cost, c.Hits, c.Allowed, c.Shadow
		counts[i], refused[i] = c.Count, c.Refused
		if c.Kind.InWindow() {
			starts[i] = &c.WindowStart
		}
		if c.Kind.HasLimit() {
			limits[i] = nullLimit(c.Limit)
		}
		methods[i], paths[i], requests[i] = clean(c.Method), clean(c.Path), clean(c.RequestID)
		schedules[i] = c.Schedule
	}
	return []any{calledAt, kinds, policies, keys, costs, hits, allowed, shadow, counts, refused, limits, starts, methods, paths, requests, schedules}
}

// fullCallArrays are the calls' values in the order of fullCallRow.
func fullCallArrays(calls []domain.Call) []any {
	coverages, actors, hashes := make([]*string, len(calls)), make([]*string, len(calls)), make([]*string, len(calls))
	for i := range calls {
		if c := &calls[i]; c.Coverage != "" {
			coverages[i] = &c.Coverage
		}
		if calls[i].Actor != "" {
			actor := clean(calls[i].Actor)
			actors[i] = &actor
		}
		if calls[i].Hash != "" {
			hashes[i] = &calls[i].Hash
		}
	}
	return append(callArrays(calls), coverages, actors, hashes)
}

// clean is s without what PostgreSQL cannot store. What a client sends as its path
// must not fail the commit that others share.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
