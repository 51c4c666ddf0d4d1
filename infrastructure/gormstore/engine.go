package gormstore

import (
	"time"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// engine is what SQLite and PostgreSQL write differently where the log is read.
type engine struct {
	// idList is the aggregate that lists ids in order, as '17,23,40'.
	idList string
	// allowedUnits and refusedUnits are the units of a row that were allowed or
	// refused: 0 for what is no hit, and at most the largest number.
	allowedUnits, refusedUnits string
	// refused is the condition of the index of refused rows; the others name the indexes
	// where the engine has to be told.
	refused                     string
	byRefused, byOther, byOrder string
	// minute is the beginning of a row's minute, as instant reads it.
	minute string
	// sums are two columns, name_high and name_low, that add up to units without overflow.
	sums func(name, units string) string
	// anyOf is whether a condition is true for any row.
	anyOf func(condition string) string
	// blocksLock is a statement that keeps others from adding blocks and from pruning until
	// the transaction ends; "" where no others can be writing.
	blocksLock string
	// at is a time as called_at is compared with it.
	at func(time.Time) any
}

// lockBlocks keeps others from changing what blocks say until the transaction ends.
func (e *engine) lockBlocks(tx *gorm.DB) error {
	if e.blocksLock == "" {
		return nil
	}
	return tx.Exec(e.blocksLock).Error
}

const hitUnits = `CASE WHEN kind <> 'hit' OR allowed = `

var sqliteEngine = &engine{
	idList:       `group_concat(id, ',' ORDER BY id)`,
	allowedUnits: hitUnits + `0 THEN 0 ` + sqliteUnits,
	refusedUnits: hitUnits + `1 THEN 0 ` + sqliteUnits,
	refused:      `allowed = 0`,
	byRefused:    `api_calls INDEXED BY api_calls_refused`,
	byOther:      `api_calls INDEXED BY api_calls_other`,
	byOrder:      `api_calls NOT INDEXED`,
	minute:       `substr(called_at, 1, 16) || ':00Z'`,
	sums: func(name, units string) string {
		return `sum((` + units + `) >> 32) AS ` + name + `_high, sum((` + units + `) & 4294967295) AS ` + name + `_low`
	},
	anyOf: func(condition string) string { return `max(` + condition + `)` },
	at:    func(t time.Time) any { return domain.CeilMilli(t).Format(milliseconds) },
}

const sqliteUnits = `WHEN cost <= 9223372036854775807 / max(hits, 1) THEN cost * hits ELSE 9223372036854775807 END`

var postgresEngine = &engine{
	idList:       `string_agg(id::text, ',' ORDER BY id)`,
	allowedUnits: hitUnits + `false THEN 0 ` + postgresUnits,
	refusedUnits: hitUnits + `true THEN 0 ` + postgresUnits,
	refused:      `NOT allowed`,
	byRefused:    `api_calls`,
	byOther:      `api_calls`,
	byOrder:      `api_calls`,
	blocksLock:   `SELECT pg_advisory_xact_lock(1920102252, 'api_call_blocks'::regclass::oid::integer)`,
	minute:       `date_trunc('minute', called_at)`,
	sums: func(name, units string) string { // a sum of bigint is numeric
		return `least(sum(` + units + `), 9223372036854775807)::bigint / 4294967296 AS ` + name + `_high, least(sum(` + units + `), 9223372036854775807)::bigint % 4294967296 AS ` + name + `_low`
	},
	anyOf: func(condition string) string { return `bool_or(` + condition + `)` },
	at:    func(t time.Time) any { return domain.CeilMilli(t) },
}

const postgresUnits = `WHEN cost <= 9223372036854775807 / greatest(hits, 1) THEN cost * hits ELSE 9223372036854775807 END`
