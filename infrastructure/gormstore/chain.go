package gormstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// chainRow is a row of api_call_chains: how far a chain has come.
type chainRow struct {
	Policy string `gorm:"primaryKey"` // the name of the chain
	Hash   string
}

func (chainRow) TableName() string { return "api_call_chains" }

// openChain reports whether calls are to be chained: if wanted, or because they were before.
func openChain(db *gorm.DB, wanted bool) (chained bool, err error) {
	if wanted { // a row that says so, for who comes later
		err = db.Clauses(clause.OnConflict{DoNothing: true}).Create(&chainRow{Hash: domain.ChainStart("")}).Error
	}
	var rows int64
	if err == nil {
		err = db.Model(&chainRow{}).Limit(1).Count(&rows).Error
	}
	if err != nil {
		return false, fmt.Errorf("look for a chain: %w", err)
	}
	return rows > 0, nil
}

// openChain waits for the write lock, which others may be holding, if it has to write.
func (s *Store) openChain(ctx context.Context, wanted bool) (chained bool, err error) {
	if !wanted {
		return openChain(s.gorm.WithContext(ctx), false)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = s.transact(ctx, func(u *unit) error {
		chained, err = openChain(u.gorm, true)
		return err
	})
	return chained, err
}

// openTimeout is how long the opening of a file may wait for the write lock.
const openTimeout = 30 * time.Second

// link gives calls their hashes, and moves the heads of their chains on.
func link(calls []domain.Call, heads map[string]string) (linked []domain.Call) {
	linked = slices.Clone(calls)
	for i := range linked {
		call := &linked[i]
		name := call.ChainName()
		before, known := heads[name]
		if !known {
			before = domain.ChainStart(name)
		}
		call.Hash = call.Chain(before)
		heads[name] = call.Hash
	}
	return linked
}

// chainsOf are the names of the chains of calls, each once.
func chainsOf(calls []domain.Call) (names []string) {
	for i := range calls {
		if name := calls[i].ChainName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// link chains calls that are about to be appended; the write lock is held.
func (u *unit) link(ctx context.Context, calls []domain.Call) ([]domain.Call, error) {
	db := u.gorm.WithContext(context.WithoutCancel(ctx))
	var rows []chainRow
	if err := db.Where("policy IN ?", chainsOf(calls)).Find(&rows).Error; err != nil {
		return nil, err
	}
	heads := map[string]string{}
	for _, row := range rows {
		heads[row.Policy] = row.Hash
	}
	linked := link(calls, heads)
	rows = rows[:0]
	for _, name := range chainsOf(calls) {
		rows = append(rows, chainRow{name, heads[name]})
	}
	return linked, db.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "policy"}}, DoUpdates: clause.AssignmentColumns([]string{"hash"}),
	}).Create(&rows).Error
}

// link chains the calls that are to be written. It takes the lock of the log, after
// what else the unit has to lock.
func (u *pgUnit) link(ctx context.Context) error {
	if err := u.flush(ctx, false); err != nil {
		return err
	}
	names, heads := chainsOf(u.calls), map[string]string{}
	batch := &pgx.Batch{}
	u.begin(ctx, batch)
	batch.Queue(lockLog)
	batch.Queue(`SELECT policy, hash FROM api_call_chains WHERE policy = ANY($1)`, names).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var row chainRow
			if err := rows.Scan(&row.Policy, &row.Hash); err != nil {
				return err
			}
			heads[row.Policy] = row.Hash
		}
		return rows.Err()
	})
	u.holds = true
	if err := u.send(ctx, batch, false); err != nil {
		return err
	}
	for i := range u.calls { // the hash is of what is stored
		c := &u.calls[i]
		c.Method, c.Path, c.RequestID, c.Actor = clean(c.Method), clean(c.Path), clean(c.RequestID), clean(c.Actor)
	}
	u.calls = link(u.calls, heads)
	hashes := make([]string, len(names))
	for i, name := range names {
		hashes[i] = heads[name]
	}
	u.chains = []any{names, hashes}
	return nil
}

// moveChains is what link leaves for the end of the unit.
const moveChains = `INSERT INTO api_call_chains (policy, hash) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (policy) DO UPDATE SET hash = excluded.hash`

// ChainHeads implements [domain.Chained].
func (s *Store) ChainHeads(ctx context.Context) (map[string]string, error) {
	return chainHeads(s.shortly(ctx))
}

// ChainHeads implements [domain.Chained].
func (p *Postgres) ChainHeads(ctx context.Context) (map[string]string, error) {
	return chainHeads(p.shortly(ctx))
}

func chainHeads(read reads) (map[string]string, error) {
	var rows []chainRow
	if err := read(func(db *gorm.DB) error { return db.Find(&rows).Error }); err != nil {
		return nil, fmt.Errorf("read the heads of chains: %w", err)
	}
	heads := make(map[string]string, len(rows))
	for _, row := range rows {
		heads[row.Policy] = row.Hash
	}
	return heads, nil
}

// LastID implements [domain.Gapless].
func (s *Store) LastID(ctx context.Context) (last int64, err error) {
	err = s.readOnce(ctx, func(db *gorm.DB) error {
		return db.Raw(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'api_calls'`).Row().Scan(&last)
	})
	if err != nil {
		return 0, fmt.Errorf("read the last id: %w", err)
	}
	return last, nil
}
