package gormstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// totals adds up hits: by the sums of blocks where these will do, and else by rows.
func (e *engine) totals(read reads, query domain.TotalQuery, add func(domain.Total)) error {
	s := &totalSearch{engine: e, read: read, query: query, add: add}
	s.calls = domain.CallQuery{Policy: query.Policy, Key: query.Key, Path: query.Path, From: query.From, To: query.To}
	if err := s.run(); err != nil {
		return fmt.Errorf("add up calls: %w", err)
	}
	return nil
}

type totalSearch struct {
	engine *engine
	read   reads
	query  domain.TotalQuery
	calls  domain.CallQuery // the same filters
	add    func(domain.Total)
}

// sumBlocks is about how many rows of blocks one statement adds up.
const sumBlocks = 64

func (s *totalSearch) run() error {
	var ends logEnds
	if err := s.read(func(db *gorm.DB) (err error) { ends, err = readEnds(db); return err }); err != nil {
		return err
	}
	for tail := (idSpan{ends.blocked().last + 1, ends.last}); !tail.empty(); {
		piece := idSpan{tail.first, min(tail.last, tail.first+scanIDs-1)}
		tail.first = piece.last + 1
		if err := s.rows(func(db *gorm.DB) *gorm.DB { return between(db, piece) }); err != nil {
			return err
		}
	}
	for next := int64(0); next <= ends.top; {
		var sums []blockRow
		err := s.read(func(db *gorm.DB) error {
			// All rows of the blocks of which one matters: a block that has calls beside the
			// span is told by any of them.
			matter := overlapping(db.Session(&gorm.Session{NewDB: true}).Model(&blockRow{}), s.engine, s.calls, idSpan{next << blockBits, ends.blocked().last})
			return s.ofPolicy(db.Where("block IN (?)", matter.Select("block"))).Order("block, policy").Limit(1000).Find(&sums).Error
		})
		if err != nil {
			return err
		}
		if len(sums) == 1000 { // the last block may not be whole
			last := sums[len(sums)-1].Block
			if rest := slices.DeleteFunc(slices.Clone(sums), func(r blockRow) bool { return r.Block == last }); len(rest) > 0 {
				sums, next = rest, last
			} else {
				next = last + 1 // more policies in one block than this: as if it had no sums
				sums = nil
				if err := s.rows(func(db *gorm.DB) *gorm.DB { return between(db, blockSpan(last, last)) }); err != nil {
					return err
				}
			}
		} else {
			next = ends.top + 1
		}
		if err := s.blocks(sums); err != nil {
			return err
		}
	}
	return nil
}

// blocks adds up whole blocks, of which it is given all rows that matter.
func (s *totalSearch) blocks(sums []blockRow) error {
	var whole []blockRow // rows of blocks whose sums will do
	var split []int64    // other blocks
	for len(sums) > 0 {
		n := slices.IndexFunc(sums, func(r blockRow) bool { return r.Block != sums[0].Block })
		if n < 0 {
			n = len(sums)
		}
		if slices.ContainsFunc(sums[:n], func(r blockRow) bool { return !s.willDo(&r) }) {
			split = append(split, sums[0].Block)
		} else {
			whole = append(whole, sums[:n]...)
		}
		sums = sums[n:]
	}
	if err := s.whole(whole); err != nil {
		return err
	}
	for len(split) > 0 {
		page := split[:min(len(split), scanIDs>>blockBits)]
		if s.query.Key != "" {
			page = split[:min(len(split), sumBlocks)]
		}
		split = split[len(page):]
		if err := s.split(page); err != nil {
			return err
		}
	}
	return nil
}

// willDo reports whether the sums of the row are sums over hits that the query wants,
// all of one group or told apart by key and policy.
func (s *totalSearch) willDo(r *blockRow) bool {
	first, last := time.Time(r.FirstCalledAt), time.Time(r.LastCalledAt)
	switch {
	case r.Pruned, s.query.Path != "", s.query.By == domain.UsageByPath,
		!s.query.From.IsZero() && first.Before(domain.CeilMilli(s.query.From)),
		!s.query.To.IsZero() && !last.Before(domain.CeilMilli(s.query.To)):
		return false
	case s.query.By.IsTime():
		return first.Truncate(time.Minute).Equal(last.Truncate(time.Minute)) || s.query.Same != nil && s.query.Same(first, last)
	}
	return true
}

// whole adds up blocks by their sums.
func (s *totalSearch) whole(sums []blockRow) error {
	if s.query.Key == "" && s.query.By != domain.UsageByKey {
		for i := range sums {
			r := &sums[i]
			s.add(s.total(r, domain.Total{Group: r.Policy, Allowed: r.Allowed, Refused: r.Refused, Partial: r.Partial}))
		}
		return nil
	}
	for len(sums) > 0 {
		n := min(len(sums), sumBlocks)
		for n < len(sums) && sums[n].Block == sums[n-1].Block { // whole blocks
			n++
		}
		page := sums[:n]
		sums = sums[n:]
		var err error
		if s.query.Key == "" {
			err = s.keySums(page)
		} else {
			err = s.sumsOfKey(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// total is the sum of some of the block's hits, by time if the query is.
func (s *totalSearch) total(r *blockRow, sum domain.Total) domain.Total {
	if s.query.By.IsTime() {
		sum.Group, sum.At = "", time.Time(r.FirstCalledAt)
	}
	return sum
}

// keySums adds up keys over blocks.
func (s *totalSearch) keySums(sums []blockRow) error {
	return s.read(func(db *gorm.DB) error {
		db = s.ofPolicy(db.Model(&keyRow{}).Where("block IN ?", numbersOf(sums))).Group("key")
		return s.scan(db.Select("key, " + s.engine.sums("allowed", "allowed") + ", " + s.engine.sums("refused", "refused") + ", " + s.engine.anyOf("partial")))
	})
}

// sumsOfKey adds up what the query's key has in blocks.
func (s *totalSearch) sumsOfKey(sums []blockRow) error {
	var rows []keyRow
	err := s.read(func(db *gorm.DB) error {
		db = db.Where("block IN ? AND key = ?", numbersOf(sums), s.query.Key)
		return s.ofPolicy(db).Omit("ids").Find(&rows).Error
	})
	for i := range rows {
		r := &rows[i]
		at := slices.IndexFunc(sums, func(sum blockRow) bool { return sum.Block == r.Block && sum.Policy == r.Policy })
		sum := domain.Total{Group: r.Policy, Allowed: r.Allowed, Refused: r.Refused, Partial: r.Partial}
		if s.query.By == domain.UsageByKey {
			sum.Group = r.Key
		}
		s.add(s.total(&sums[at], sum))
	}
	return err
}

// numbersOf are the numbers of blocks.
func numbersOf(sums []blockRow) (blocks []int64) {
	for i := range sums {
		if i == 0 || sums[i].Block != sums[i-1].Block {
			blocks = append(blocks, sums[i].Block)
		}
	}
	return blocks
}

func (s *totalSearch) ofPolicy(db *gorm.DB) *gorm.DB {
	if s.query.Policy != "" {
		db = db.Where("policy = ?", s.query.Policy)
	}
	return db
}

// split adds up blocks by their rows.
func (s *totalSearch) split(blocks []int64) error {
	if s.query.Key == "" {
		for _, block := range blocks {
			if err := s.rows(func(db *gorm.DB) *gorm.DB { return between(db, blockSpan(block, block)) }); err != nil {
				return err
			}
		}
		return nil
	}
	spans := make([]idSpan, len(blocks))
	for i, block := range blocks {
		spans[i] = blockSpan(block, block)
	}
	ids, err := s.engine.idsOf(s.read, s.calls, spans)
	if err != nil {
		return err
	}
	for page := range slices.Chunk(ids, 1000) {
		if err := s.rows(func(db *gorm.DB) *gorm.DB { return db.Where("id IN ?", page) }); err != nil {
			return err
		}
	}
	return nil
}

// rows adds up the rows that where lets pass, and the query's filters do.
func (s *totalSearch) rows(where func(*gorm.DB) *gorm.DB) error {
	group := string(s.query.By)
	if s.query.By.IsTime() {
		group = s.engine.minute
	}
	columns := []string{
		group, s.engine.sums("allowed", s.engine.allowedUnits), s.engine.sums("refused", s.engine.refusedUnits),
		s.engine.anyOf("coverage IS NOT NULL"),
	}
	return s.read(func(db *gorm.DB) error {
		db = s.engine.filter(where(db.Table("api_calls").Where("kind = 'hit'")), s.calls)
		return s.scan(db.Select(strings.Join(columns, ", ")).Group(group))
	})
}

// scan passes on rows of a group, its units in two parts each, and whether it is partial.
func (s *totalSearch) scan(db *gorm.DB) error {
	rows, err := db.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var t domain.Total
		var at instant
		var group any = &t.Group
		if s.query.By.IsTime() {
			group = &at
		}
		var allowedHigh, allowedLow, refusedHigh, refusedLow int64
		if err := rows.Scan(group, &allowedHigh, &allowedLow, &refusedHigh, &refusedLow, &t.Partial); err != nil {
			return err
		}
		t.At, t.Allowed, t.Refused = time.Time(at), join(allowedHigh, allowedLow), join(refusedHigh, refusedLow)
		s.add(t)
	}
	return rows.Err()
}
