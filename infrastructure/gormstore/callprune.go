package gormstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// pruneRow is a row of api_call_prunes.
type pruneRow struct {
	Policy   string `gorm:"primaryKey"`
	Through  int64
	Removed  int64
	PrunedAt stamp
	Hash     *string // of the row with that id
}

func (pruneRow) TableName() string { return "api_call_prunes" }

// prunable are the rows that age, see [domain.CallKind.Ages].
const prunable = `kind IN ('hit', 'unchecked')`

// pruner removes the oldest rows of a policy.
type pruner struct {
	engine *engine
	read   reads
	write  reads
	prune  domain.Prune
}

// pruneMost is how many rows are removed at a time, whatever the limit: each is a value
// of a statement, and engines bound these.
const pruneMost = 5000

// run removes rows in the order of ids, up to the first that stays.
func (p *pruner) run() (removed int, more bool, err error) {
	p.prune.Limit = min(p.prune.Limit, pruneMost)
	var ends logEnds
	var before pruneRow
	err = p.read(func(db *gorm.DB) (err error) {
		if ends, err = readEnds(db); err != nil {
			return err
		}
		return db.Where("policy = ?", p.prune.Policy).Limit(1).Find(&before).Error
	})
	if err != nil {
		return 0, false, err
	}
	cut, err := p.cut(ends)
	if err != nil {
		return 0, false, err
	}
	doomed, err := p.doomed(idSpan{before.Through + 1, ends.last}, ends, cut)
	if err != nil || len(doomed) == 0 {
		return 0, false, err
	}
	err = p.write(func(db *gorm.DB) (err error) {
		removed, err = p.remove(db, doomed)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return removed, len(doomed) == p.prune.Limit, nil
}

// cut is the id up to which rows are more than may be kept.
func (p *pruner) cut(ends logEnds) (cut int64, err error) {
	if p.prune.Most <= 0 {
		return 0, nil
	}
	var newest int64 // rows that are newer than those looked at
	err = p.read(func(db *gorm.DB) error {
		return p.mine(db).Where("id > ?", ends.blocked().last).Count(&newest).Error
	})
	if err != nil {
		return 0, err
	}
	span := idSpan{ends.blocked().last + 1, ends.last}
	for block := ends.top; newest <= p.prune.Most; {
		var sums []blockRow
		err := p.read(func(db *gorm.DB) error {
			return db.Where("policy = ? AND block <= ?", p.prune.Policy, block).Order("block DESC").Limit(1000).Find(&sums).Error
		})
		if err != nil || len(sums) == 0 {
			return 0, err
		}
		for _, sum := range sums {
			block, span = sum.Block-1, blockSpan(sum.Block, sum.Block)
			if newest += sum.Calls; newest > p.prune.Most {
				break
			}
		}
	}
	// In the span there are more than may be kept, by so many.
	err = p.read(func(db *gorm.DB) error {
		return between(p.mine(db), span).Select("id").Order("id").Limit(1).Offset(int(newest-p.prune.Most) - 1).Scan(&cut).Error
	})
	return cut, err
}

func (p *pruner) mine(db *gorm.DB) *gorm.DB {
	return db.Table(p.engine.byOrder).Where(prunable).Where("policy = ?", p.prune.Policy)
}

// agingRow is what is asked of a row to know whether it goes.
type agingRow struct {
	ID       int64
	CalledAt instant
}

// doomed are the ids of rows to remove, at most as many as the limit.
func (p *pruner) doomed(span idSpan, ends logEnds, cut int64) (doomed []int64, err error) {
	sure := 0 // so many go for certain; those behind are misdated, and go if the next row does
	for sure < p.prune.Limit && !span.empty() {
		rows, err := p.next(&span, ends, p.prune.Limit-len(doomed))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			call := domain.Call{At: time.Time(row.CalledAt)}
			goes := row.ID <= cut || p.prune.Old(&call)
			if !goes && !p.prune.Misdated(&call) {
				return doomed[:sure], nil
			}
			if doomed = append(doomed, row.ID); goes {
				sure = len(doomed)
			}
		}
	}
	return doomed[:min(sure, p.prune.Limit)], nil
}

// next cuts a piece of one block at most off the span and returns its first rows, at
// most so many. If they are to be none it returns one all the same, the first that is
// not misdated: however many are, it decides about those before it.
func (p *pruner) next(span *idSpan, ends logEnds, most int) (rows []agingRow, err error) {
	dated := func(db *gorm.DB, column string) *gorm.DB {
		if most > 0 {
			return db
		}
		return db.Where(column+" <= ?", p.engine.at(p.prune.Horizon()))
	}
	if span.first <= ends.blocked().last { // pass over blocks without such a row of the policy
		var next int64
		err := p.read(func(db *gorm.DB) error {
			return dated(db.Model(&blockRow{}), "first_called_at").Select("coalesce(min(block), ?)", ends.top+1).
				Where("policy = ? AND block >= ?", p.prune.Policy, span.first>>blockBits).Scan(&next).Error
		})
		if err != nil {
			return nil, err
		}
		if span.first = max(span.first, next<<blockBits); span.empty() {
			return nil, nil
		}
	}
	piece := idSpan{span.first, min(span.last, span.first|(1<<blockBits-1))}
	err = p.read(func(db *gorm.DB) error {
		return dated(between(p.mine(db), piece), "called_at").Select("id", "called_at").Order("id").Limit(max(most, 1)).Find(&rows).Error
	})
	if span.first = piece.last + 1; len(rows) == most && most > 0 {
		span.first = rows[most-1].ID + 1
	}
	return rows, err
}

// remove deletes rows and what is derived from them.
func (p *pruner) remove(db *gorm.DB, doomed []int64) (removed int, err error) {
	if err := p.engine.lockBlocks(db); err != nil {
		return 0, err
	}
	var gone []callHash
	err = db.Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}, {Name: "hash"}}}).Where("id IN ?", doomed).Delete(&gone).Error
	if err != nil || len(gone) == 0 { // somebody else has
		return 0, err
	}
	last, inBlock := gone[0], map[int64]int64{}
	for _, row := range gone {
		if row.ID > last.ID {
			last = row
		}
		inBlock[row.ID>>blockBits]++
	}
	for _, block := range slices.Sorted(maps.Keys(inBlock)) { // all in one order
		if err := p.shrink(db, block, inBlock[block], len(doomed) < p.prune.Limit); err != nil {
			return 0, err
		}
	}
	note := pruneRow{Policy: p.prune.Policy, Through: last.ID, Removed: int64(len(gone)), PrunedAt: stamp(p.prune.At), Hash: last.Hash}
	return len(gone), db.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "policy"}},
		DoUpdates: clause.Assignments(map[string]any{
			"hash":      gorm.Expr("CASE WHEN api_call_prunes.through > excluded.through THEN api_call_prunes.hash ELSE excluded.hash END"),
			"through":   gorm.Expr("CASE WHEN api_call_prunes.through > excluded.through THEN api_call_prunes.through ELSE excluded.through END"),
			"removed":   gorm.Expr("api_call_prunes.removed + excluded.removed"),
			"pruned_at": gorm.Expr("excluded.pruned_at"),
		}),
	}).Create(&note).Error
}

// shrink takes n rows of the policy out of a block. When none is left, or for now no
// more are to be removed, the keys of rows that are gone go too.
func (p *pruner) shrink(db *gorm.DB, block, n int64, last bool) error {
	of := func(model any) *gorm.DB {
		return db.Model(model).Where("block = ? AND policy = ?", block, p.prune.Policy)
	}
	shrunk := of(&blockRow{}).Updates(map[string]any{"calls": gorm.Expr("calls - ?", n), "pruned": true})
	if shrunk.Error != nil {
		return shrunk.Error
	}
	if shrunk.RowsAffected == 0 { // it is not a block yet, and who is adding it must begin anew
		return db.Where("block = ? AND block > (SELECT coalesce(max(block), -1) FROM api_call_blocks)", block).Delete(&keyRow{}).Error
	}
	var left int64
	if err := of(&blockRow{}).Select("calls").Scan(&left).Error; err != nil || left > 0 && !last {
		return err
	}
	rows := between(db.Table(p.engine.byOrder), blockSpan(block, block)).Where("policy = ?", p.prune.Policy)
	if err := of(&keyRow{}).Where("key NOT IN (?)", rows.Session(&gorm.Session{}).Select("key")).Delete(&keyRow{}).Error; err != nil || left > 0 {
		return err
	}
	// The last block stays: it tells how far blocks reach.
	return of(&blockRow{}).Where("block < (SELECT max(block) FROM api_call_blocks) AND NOT EXISTS (?)", rows.Select("1")).Delete(&blockRow{}).Error
}

// PruneCalls implements [domain.CallPruner].
func (s *Store) PruneCalls(ctx context.Context, prune domain.Prune) (removed int, more bool, err error) {
	return pruneCalls(&pruner{sqliteEngine, s.shortly(ctx), func(do func(*gorm.DB) error) error { return s.write(ctx, do) }, prune})
}

func pruneCalls(p *pruner) (removed int, more bool, err error) {
	if removed, more, err = p.run(); err != nil {
		return 0, false, fmt.Errorf("prune calls: %w", err)
	}
	return removed, more, nil
}

// PrunedCalls implements [domain.CallPruner].
func (s *Store) PrunedCalls(ctx context.Context) ([]domain.PrunedCalls, error) {
	return prunedCalls(s.shortly(ctx))
}

func prunedCalls(read reads) ([]domain.PrunedCalls, error) {
	var rows []pruneRow
	if err := read(func(db *gorm.DB) error { return db.Order("policy").Find(&rows).Error }); err != nil {
		return nil, fmt.Errorf("read what was pruned: %w", err)
	}
	pruned := make([]domain.PrunedCalls, len(rows))
	for i, row := range rows {
		pruned[i] = domain.PrunedCalls{Policy: row.Policy, Through: row.Through, Removed: row.Removed, At: time.Time(row.PrunedAt), Hash: textOf(row.Hash)}
	}
	return pruned, nil
}
