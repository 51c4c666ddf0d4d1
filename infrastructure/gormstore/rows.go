package gormstore

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// windowRow is a row of rate_limit_windows. The order of its fields is the order
// in which upserts bind values.
type windowRow struct {
	Policy      string  `gorm:"primaryKey"`
	Key         string  `gorm:"primaryKey"`
	Schedule    string  `gorm:"primaryKey"`
	WindowStart instant `gorm:"primaryKey"`
	Count       int64
	Refused     int64
	ExpiresAt   instant
}

func (windowRow) TableName() string { return "rate_limit_windows" }

// newCallRow is a row of api_calls as most hits need it, without its id, which the
// database gives. The order of its fields is the order in which inserts bind values.
type newCallRow struct {
	CalledAt    instant
	Kind        string
	Policy      string
	Key         string
	Cost        int64
	Hits        int64
	Allowed     bool
	Shadow      bool
	Count       int64
	Refused     int64
	Limit       *int64
	WindowStart *instant
	Method      string
	Path        string
	RequestID   string
	Schedule    string
}

func (newCallRow) TableName() string { return "api_calls" }

// fullCallRow is a row with the columns too that are NULL for most.
type fullCallRow struct {
	Row      newCallRow `gorm:"embedded"`
	Coverage *string
	Actor    *string
	Hash     *string
}

func (fullCallRow) TableName() string { return "api_calls" }

// isFull reports whether some call has something for the columns of fullCallRow.
func isFull(calls []domain.Call) bool {
	return slices.ContainsFunc(calls, func(c domain.Call) bool { return c.Coverage != "" || c.Actor != "" || c.Hash != "" })
}

// callColumns are the columns of api_calls in the order in which callReader reads them.
// By hand: logs are read by the million, and to read a row by reflection takes GORM
// several times as long.
const callColumns = `id, called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule, coverage, actor, hash`

// callReader reads calls from rows. It keeps what neighbours have in common.
type callReader struct {
	texts                                map[string]string
	calledAt, windowStart                any
	kind, policy, method, path, schedule sql.RawBytes
	limit                                sql.NullInt64
	coverage, actor, hash                sql.NullString
}

func (r *callReader) call(rows *sql.Rows) (c domain.Call, err error) {
	err = rows.Scan(&c.ID, &r.calledAt, &r.kind, &r.policy, &c.Key, &c.Cost, &c.Hits, &c.Allowed, &c.Shadow, &c.Count, &c.Refused,
		&r.limit, &r.windowStart, &r.method, &r.path, &c.RequestID, &r.schedule, &r.coverage, &r.actor, &r.hash)
	if err != nil {
		return c, err
	}
	c.Kind, c.Policy, c.Schedule = domain.CallKind(r.text(r.kind)), r.text(r.policy), r.text(r.schedule)
	c.Method, c.Path, c.Actor = r.text(r.method), r.text(r.path), r.actor.String
	c.Coverage, c.Hash = r.coverage.String, r.hash.String
	if c.Limit = domain.Unlimited; r.limit.Valid {
		c.Limit = r.limit.Int64
	}
	if c.At, err = timeOf(r.calledAt); err == nil && r.windowStart != nil {
		c.WindowStart, err = timeOf(r.windowStart)
	}
	if err != nil {
		err = fmt.Errorf("call %d: %w", c.ID, err)
	}
	return c, err
}

// text is a text that is likely to have been there before.
func (r *callReader) text(b []byte) string {
	text, known := r.texts[string(b)]
	if !known {
		if r.texts == nil || len(r.texts) >= 256 {
			r.texts = map[string]string{}
		}
		text = string(b)
		r.texts[text] = text
	}
	return text
}

// callHash is a row of api_calls that was removed.
type callHash struct {
	ID   int64
	Hash *string
}

func (callHash) TableName() string { return "api_calls" }

// callValues appends the call's values in the order of newCallRow.
func (r *runner) callValues(values []any, call *domain.Call) []any {
	var limit, start any
	if call.Kind.InWindow() {
		start = r.second(call.WindowStart)
	}
	if call.Kind.HasLimit() && call.Limit != domain.Unlimited {
		limit = call.Limit
	}
	return append(values, r.millisecond(call.At), string(call.Kind), call.Policy, call.Key,
		call.Cost, call.Hits, call.Allowed, call.Shadow, call.Count, call.Refused, limit, start,
		call.Method, call.Path, call.RequestID, call.Schedule)
}

// fullCallValues appends the call's values in the order of fullCallRow.
func (r *runner) fullCallValues(values []any, call *domain.Call) []any {
	return append(r.callValues(values, call), nullText(call.Coverage), nullText(call.Actor), nullText(call.Hash))
}

// textOf is the text that a column holds, where NULL is "", and nullText the reverse.
func textOf(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

func nullText(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// limitOf is the limit that a column holds, where NULL is unlimited.
func limitOf(column *int64) int64 {
	if column == nil {
		return domain.Unlimited
	}
	return *column
}

// nullLimit is a limit as a column holds it.
func nullLimit(limit int64) *int64 {
	if limit == domain.Unlimited {
		return nil
	}
	return &limit
}

// instant is a time as a row is read: SQLite has text there, PostgreSQL a time.
type instant time.Time

// Scan implements [sql.Scanner].
func (i *instant) Scan(column any) error {
	t, err := timeOf(column)
	*i = instant(t)
	return err
}

// timeOf is the time that a column holds.
func timeOf(column any) (time.Time, error) {
	switch value := column.(type) {
	case time.Time:
		return value.UTC(), nil
	case string:
		return time.Parse(time.RFC3339, value)
	case []byte:
		return time.Parse(time.RFC3339, string(value))
	}
	return time.Time{}, fmt.Errorf("a %T is no time", column)
}

// stamp is a time to the millisecond in rows that GORM writes by itself.
type stamp time.Time

// Scan implements [sql.Scanner].
func (s *stamp) Scan(column any) error { return (*instant)(s).Scan(column) }

// Value implements [driver.Valuer].
func (s stamp) Value() (driver.Value, error) { return time.Time(s).UTC().Format(milliseconds), nil }

// SQLite stores times as UTC text of one length for each column, so that text
// order is time order. PostgreSQL reads these texts too.
const (
	seconds      = "2006-01-02T15:04:05Z"
	milliseconds = "2006-01-02T15:04:05.000Z"
)
