package gormstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// The log has no index by key: each commit would write a random page of it for each
// key. Instead the keys of a block, rows that are neighbours by id, are sorted once the
// block is full, and added to the end of a table. So are the sums of the block. Rows
// beyond the last block are few and are read through. See docs/adr/0010.

// blockBits is the binary logarithm of the number of ids in a block.
const blockBits = 14

// blockRow is a row of api_call_blocks: the rows of a policy in a block.
type blockRow struct {
	Block         int64  `gorm:"primaryKey;autoIncrement:false"`
	Policy        string `gorm:"primaryKey"`
	Calls         int64  // those that age, see prunable
	Allowed       int64
	Refused       int64
	Partial       bool
	Pruned        bool
	FirstCalledAt stamp
	LastCalledAt  stamp
}

func (blockRow) TableName() string { return "api_call_blocks" }

// keyRow is a row of api_calls_by_key: the rows of a key under a policy in a block.
type keyRow struct {
	Block   int64  `gorm:"primaryKey;autoIncrement:false"`
	Key     string `gorm:"primaryKey"`
	Policy  string `gorm:"primaryKey"`
	Allowed int64
	Refused int64
	Partial bool
	IDs     string `gorm:"column:ids"`
}

func (keyRow) TableName() string { return "api_calls_by_key" }

// idSpan is ids from first to last, both inclusive.
type idSpan struct{ first, last int64 }

func (s idSpan) empty() bool { return s.first > s.last }

// blockSpan is the ids of the blocks from first to last.
func blockSpan(first, last int64) idSpan {
	return idSpan{first << blockBits, (last+1)<<blockBits - 1}
}

// logEnds are how far the log and its blocks reach.
type logEnds struct {
	first, last int64 // ids of the oldest call and of the newest, 0 if there is none
	top         int64 // the last block, -1 if there is none
}

func readEnds(db *gorm.DB) (ends logEnds, err error) {
	row := db.Raw(`SELECT (SELECT coalesce(min(id), 0) FROM api_calls), (SELECT coalesce(max(id), 0) FROM api_calls), (SELECT coalesce(max(block), -1) FROM api_call_blocks)`).Row()
	if err := row.Err(); err != nil {
		return ends, err
	}
	return ends, row.Scan(&ends.first, &ends.last, &ends.top)
}

// blocked are the ids that blocks have.
func (e logEnds) blocked() idSpan { return idSpan{0, (e.top+1)<<blockBits - 1} }

// blockKeeper adds blocks. Any number of processes may do so on one database.
type blockKeeper struct {
	engine      *engine
	read, write func(context.Context, func(*gorm.DB) error) error

	wakeOnce sync.Once
	woken    chan struct{} // capacity 1
	ctx      context.Context
	stop     context.CancelFunc
	stopped  sync.WaitGroup
}

func newBlockKeeper(engine *engine, read, write func(context.Context, func(*gorm.DB) error) error) *blockKeeper {
	k := &blockKeeper{engine: engine, read: read, write: write, woken: make(chan struct{}, 1)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// appended is told that calls were committed. The first time starts the goroutine that
// adds blocks, which close ends.
func (k *blockKeeper) appended() {
	k.wakeOnce.Do(func() { k.stopped.Go(k.run) })
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// blockPause is how long the keeper rests between two looks, blockRetry after a failure.
const (
	blockPause = 200 * time.Millisecond
	blockRetry = 5 * time.Second
)

func (k *blockKeeper) run() {
	for {
		pause := blockPause
		for {
			begun := time.Now()
			added, err := k.add(k.ctx)
			if err != nil {
				pause = blockRetry
			}
			if !added || k.sleep(time.Since(begun)) { // hits first: half of the time is theirs
				break
			}
		}
		if k.sleep(pause) {
			return
		}
		select {
		case <-k.woken:
		case <-k.ctx.Done():
			return
		}
	}
}

// sleep reports whether it was cut short because the keeper is closed.
func (k *blockKeeper) sleep(d time.Duration) (closed bool) {
	select {
	case <-k.ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func (k *blockKeeper) close() {
	k.wakeOnce.Do(func() {}) // who appends later starts nothing
	k.stop()
	k.stopped.Wait()
}

// add adds the next block, if it is full.
func (k *blockKeeper) add(ctx context.Context) (added bool, err error) {
	var ends logEnds
	var block int64
	var groups []keyGroup
	err = k.read(ctx, func(db *gorm.DB) (err error) {
		if ends, err = readEnds(db); err != nil {
			return err
		}
		var first int64 // blocks that were pruned before they could be added are passed over
		if err = db.Raw(`SELECT coalesce(min(id), 0) FROM api_calls WHERE id > ?`, ends.blocked().last).Row().Scan(&first); err != nil {
			return err
		}
		block = max(first>>blockBits, ends.top+1)
		if ends.last < blockSpan(block, block).last {
			return nil
		}
		groups, err = k.engine.groups(db, blockSpan(block, block))
		return err
	})
	if err != nil || len(groups) == 0 {
		return false, err
	}
	keys, sums := k.engine.rows(block, groups)
	for i, page := range slices.Collect(slices.Chunk(keys, keysBatch)) {
		added, err = k.unlessAdded(ctx, block, func(db *gorm.DB) error {
			if i == 0 { // what somebody did not finish, here or in blocks that were pruned since
				if err := db.Where("block > ? AND block <= ?", ends.top, block).Delete(&keyRow{}).Error; err != nil {
					return err
				}
			}
			return db.Clauses(clause.OnConflict{DoNothing: true}).Create(&page).Error
		})
		if err != nil || !added {
			return !added, err
		}
	}
	// The block is there with its rows of api_call_blocks, if nothing of it was pruned, and
	// nobody began with it anew, since it was read.
	_, err = k.unlessAdded(ctx, block, func(db *gorm.DB) error {
		var rows, there int64
		if err := between(db.Table(k.engine.byOrder), blockSpan(block, block)).Count(&rows).Error; err != nil {
			return err
		}
		if err := db.Model(&keyRow{}).Where("block = ?", block).Count(&there).Error; err != nil {
			return err
		}
		if rows != rowsOf(groups) || there != int64(len(keys)) {
			return db.Where("block = ?", block).Delete(&keyRow{}).Error
		}
		return db.Create(&sums).Error
	})
	return true, err
}

// keysBatch is how many keys one transaction adds: some milliseconds of the writer's time.
const keysBatch = 1000

// unlessAdded changes something of a block in a transaction, unless the block is there.
func (k *blockKeeper) unlessAdded(ctx context.Context, block int64, change func(*gorm.DB) error) (done bool, err error) {
	err = k.write(ctx, func(db *gorm.DB) error {
		if err := k.engine.lockBlocks(db); err != nil {
			return err
		}
		ends, err := readEnds(db)
		if err != nil || ends.top >= block {
			return err
		}
		done = true
		return change(db)
	})
	if err != nil {
		return false, fmt.Errorf("add block %d of the log: %w", block, err)
	}
	return done, nil
}

// keyGroup is what the engine adds up of the rows of a key under a policy.
type keyGroup struct {
	Key, Policy                                      string
	IDs                                              string `gorm:"column:ids"`
	Rows, Calls                                      int64
	AllowedHigh, AllowedLow, RefusedHigh, RefusedLow int64
	Partial                                          bool
	First, Last                                      stamp
}

func (e *engine) groups(db *gorm.DB, span idSpan) (groups []keyGroup, err error) {
	err = db.Raw(`SELECT key, policy, `+e.idList+` AS ids, count(*) AS rows, sum(CASE WHEN `+prunable+` THEN 1 ELSE 0 END) AS calls, `+
		e.sums("allowed", e.allowedUnits)+`, `+e.sums("refused", e.refusedUnits)+`, `+
		e.anyOf("coverage IS NOT NULL AND kind = 'hit'")+` AS partial, min(called_at) AS first, max(called_at) AS last
FROM api_calls WHERE id BETWEEN ? AND ? GROUP BY key, policy ORDER BY key, policy`, span.first, span.last).Scan(&groups).Error
	return groups, err
}

// rowsOf is how many rows of api_calls the groups are of.
func rowsOf(groups []keyGroup) (rows int64) {
	for i := range groups {
		rows += groups[i].Rows
	}
	return rows
}

// rows are the rows of the block that the groups make.
func (e *engine) rows(block int64, groups []keyGroup) (keys []keyRow, sums []blockRow) {
	keys = make([]keyRow, len(groups))
	of := map[string]int{} // policies to their place in sums
	for i := range groups {
		g := &groups[i]
		allowed, refused := join(g.AllowedHigh, g.AllowedLow), join(g.RefusedHigh, g.RefusedLow)
		keys[i] = keyRow{Block: block, Key: g.Key, Policy: g.Policy, Allowed: allowed, Refused: refused, Partial: g.Partial, IDs: g.IDs}
		at, known := of[g.Policy]
		if !known {
			at = len(sums)
			of[g.Policy] = at
			sums = append(sums, blockRow{Block: block, Policy: g.Policy, FirstCalledAt: g.First, LastCalledAt: g.Last})
		}
		sum := &sums[at]
		sum.Calls += g.Calls
		sum.Allowed, sum.Refused = domain.AddUnits(sum.Allowed, allowed), domain.AddUnits(sum.Refused, refused)
		sum.Partial = sum.Partial || g.Partial
		if time.Time(g.First).Before(time.Time(sum.FirstCalledAt)) {
			sum.FirstCalledAt = g.First
		}
		if time.Time(g.Last).After(time.Time(sum.LastCalledAt)) {
			sum.LastCalledAt = g.Last
		}
	}
	return keys, sums
}

// join is high·2³² + low, or the largest number.
func join(high, low int64) int64 {
	if high += low >> 32; high > math.MaxInt64>>32 {
		return math.MaxInt64
	}
	return high<<32 | low&(1<<32-1)
}

// parseIDs reads what idList wrote.
func parseIDs(text string, ids []int64) []int64 {
	for part := range strings.SplitSeq(text, ",") {
		var id int64
		for i := range len(part) {
			id = id*10 + int64(part[i]-'0')
		}
		ids = append(ids, id)
	}
	return ids
}
