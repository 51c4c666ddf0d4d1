package gormstore

import (
	"fmt"
	"math"
	"slices"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// reads runs one statement, or a few that are short, and lets others go on after it:
// a log is read in many of them, so that its readers hold up nobody.
type reads func(func(*gorm.DB) error) error

// calls answers a query of the log.
func (e *engine) calls(read reads, query domain.CallQuery) ([]domain.Call, error) {
	s := &callSearch{engine: e, read: read, query: query, found: []domain.Call{}}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	return s.found, nil
}

// callSearch looks for the calls of a query, in its order, until there are enough.
type callSearch struct {
	engine *engine
	read   reads
	query  domain.CallQuery
	found  []domain.Call
}

// scanIDs is how many ids one statement reads through at most.
const scanIDs = 4 << blockBits

func (s *callSearch) run() error {
	var ends logEnds
	if err := s.read(func(db *gorm.DB) (err error) { ends, err = readEnds(db); return err }); err != nil {
		return err
	}
	if s.query.After == math.MaxInt64 {
		return nil
	}
	wanted := idSpan{max(s.query.After+1, ends.first), ends.last}
	if s.query.After == 0 {
		wanted.first = ends.first // which is 1, unless somebody wrote calls by hand
	}
	if s.query.Before > 0 {
		wanted.last = min(wanted.last, s.query.Before-1)
	}
	if !s.narrows() {
		return s.scan(wanted)
	}
	blocked, tail := wanted, wanted
	blocked.last = min(wanted.last, ends.blocked().last)
	tail.first = max(wanted.first, ends.blocked().last+1)
	steps := []func() error{func() error { return s.scan(tail) }, func() error { return s.blocks(blocked) }}
	if s.query.OldestFirst {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// narrows reports whether blocks may narrow down where the query's calls are.
func (s *callSearch) narrows() bool {
	q := &s.query
	return q.Key != "" || q.Policy != "" || !q.From.IsZero() || !q.To.IsZero() || q.Outcome == domain.OutcomeRefused || onlyOther(q.Kinds)
}

// missing is how many calls are still to be found.
func (s *callSearch) missing() int { return s.query.Limit - len(s.found) }

// first cuts a piece of at most n ids off the span, where the query's order begins.
func (s *callSearch) first(span *idSpan, n int64) (piece idSpan) {
	piece = *span
	if s.query.OldestFirst {
		piece.last = min(piece.last, piece.first+n-1)
		span.first = piece.last + 1
	} else {
		piece.first = max(piece.first, piece.last-n+1)
		span.last = piece.first - 1
	}
	return piece
}

// scan reads through the rows of a span.
func (s *callSearch) scan(span idSpan) error {
	for !span.empty() && s.missing() > 0 {
		piece := s.first(&span, scanIDs)
		if err := s.fetch(s.engine.byOrder, func(db *gorm.DB) *gorm.DB { return between(db, piece) }); err != nil {
			return err
		}
	}
	return nil
}

// fetch adds the rows that where lets pass, and the query's filters do.
func (s *callSearch) fetch(table string, where func(*gorm.DB) *gorm.DB) error {
	return s.read(func(db *gorm.DB) error {
		db = s.engine.filter(where(db.Table(table)), s.query)
		order := "id DESC"
		if s.query.OldestFirst {
			order = "id"
		}
		rows, err := db.Select(callColumns).Order(order).Limit(s.missing()).Rows()
		if err != nil {
			return err
		}
		defer rows.Close()
		var reader callReader
		for rows.Next() {
			call, err := reader.call(rows)
			if err != nil {
				return err
			}
			s.found = append(s.found, call)
		}
		return rows.Err()
	})
}

func between(db *gorm.DB, span idSpan) *gorm.DB {
	return db.Where("id BETWEEN ? AND ?", span.first, span.last)
}

// filter lets pass what the query asks for, its bounds of ids apart.
func (e *engine) filter(db *gorm.DB, query domain.CallQuery) *gorm.DB {
	for _, equal := range []struct{ column, value string }{
		{"policy", query.Policy}, {"key", query.Key}, {"path", query.Path}, {"request_id", query.RequestID},
	} {
		if equal.value != "" {
			db = db.Where(equal.column+" = ?", equal.value)
		}
	}
	switch query.Outcome {
	case domain.OutcomeAllowed:
		db = db.Where("kind = 'hit' AND NOT (" + e.refused + ")")
	case domain.OutcomeRefused:
		db = db.Where("kind = 'hit' AND " + e.refused)
	}
	if len(query.Kinds) > 0 {
		db = db.Where("kind IN ?", query.Kinds)
	}
	if onlyOther(query.Kinds) {
		db = db.Where("kind <> 'hit'") // as the index says it
	}
	return e.inTime(db, query)
}

func (e *engine) inTime(db *gorm.DB, query domain.CallQuery) *gorm.DB {
	if !query.From.IsZero() {
		db = db.Where("called_at >= ?", e.at(query.From))
	}
	if !query.To.IsZero() {
		db = db.Where("called_at < ?", e.at(query.To))
	}
	return db
}

// onlyOther reports whether the kinds are none of those that most rows are of.
func onlyOther(kinds []domain.CallKind) bool {
	return len(kinds) > 0 && !slices.Contains(kinds, domain.CallHit)
}

// blocks looks in blocks, by the best way that there is to the rows of the query.
func (s *callSearch) blocks(span idSpan) error {
	for size := 8; !span.empty() && s.missing() > 0; size = min(4*size, 512) {
		blocks, err := s.candidates(&span, size)
		if err != nil {
			return err
		}
		if len(blocks) == 0 {
			return nil
		}
		switch {
		case onlyOther(s.query.Kinds):
			err = s.inRuns(blocks, len(blocks), s.byIndex(s.engine.byOther))
		case s.query.Key != "":
			err = s.byKey(blocks)
		case s.query.Outcome == domain.OutcomeRefused:
			err = s.inRuns(blocks, len(blocks), s.byIndex(s.engine.byRefused))
		default:
			err = s.inRuns(blocks, scanIDs>>blockBits, s.scan)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// candidates cuts the next blocks off the span that may have rows of the query, at
// most size of them, in the query's order, and what they have of the span.
func (s *callSearch) candidates(span *idSpan, size int) (pieces []idSpan, err error) {
	var blocks []int64
	err = s.read(func(db *gorm.DB) error {
		db = overlapping(db.Model(&blockRow{}), s.engine, s.query, *span)
		order := "block DESC"
		if s.query.OldestFirst {
			order = "block"
		}
		return db.Distinct("block").Order(order).Limit(size).Pluck("block", &blocks).Error
	})
	if err != nil {
		return nil, err
	}
	whole := *span
	for _, block := range blocks {
		piece := blockSpan(block, block)
		piece.first, piece.last = max(piece.first, whole.first), min(piece.last, whole.last)
		pieces = append(pieces, piece)
		if s.query.OldestFirst {
			span.first = piece.last + 1
		} else {
			span.last = piece.first - 1
		}
	}
	return pieces, nil
}

// overlapping are the rows of blocks in the span that may have calls of the query.
func overlapping(db *gorm.DB, e *engine, query domain.CallQuery, span idSpan) *gorm.DB {
	db = db.Where("block BETWEEN ? AND ?", span.first>>blockBits, span.last>>blockBits)
	if query.Policy != "" {
		db = db.Where("policy = ?", query.Policy)
	}
	if !query.From.IsZero() {
		db = db.Where("last_called_at >= ?", e.at(query.From))
	}
	if !query.To.IsZero() {
		db = db.Where("first_called_at < ?", e.at(query.To))
	}
	return db
}

// byKey fetches the rows of the query's key.
func (s *callSearch) byKey(blocks []idSpan) error {
	ids, err := s.engine.idsOf(s.read, s.query, blocks)
	if err != nil {
		return err
	}
	if len(ids) > len(blocks)<<blockBits/8 && (s.query.Path != "" || s.query.RequestID != "") { // reading through is faster than looking up
		return s.inRuns(blocks, scanIDs>>blockBits, s.scan)
	}
	if !s.query.OldestFirst {
		slices.Reverse(ids)
	}
	for size := max(s.missing(), 100); len(ids) > 0 && s.missing() > 0; size = min(2*size, 5000) { // more if few of them pass
		page := ids[:min(len(ids), size)]
		ids = ids[len(page):]
		if err := s.fetch("api_calls", func(db *gorm.DB) *gorm.DB { return db.Where("id IN ?", page) }); err != nil {
			return err
		}
	}
	return nil
}

// idsOf are the ids of the rows in the blocks, and not outside of their spans, that
// the query's key and policy have there, in order: those that may have its outcome.
func (e *engine) idsOf(read reads, query domain.CallQuery, blocks []idSpan) (ids []int64, err error) {
	spans := make(map[int64]idSpan, len(blocks))
	numbers := make([]int64, len(blocks))
	for i, span := range blocks {
		numbers[i] = span.first >> blockBits
		spans[numbers[i]] = span
	}
	var rows []keyRow
	err = read(func(db *gorm.DB) error {
		db = db.Select("block", "ids").Where("block IN ? AND key = ?", numbers, query.Key)
		if query.Policy != "" {
			db = db.Where("policy = ?", query.Policy)
		}
		switch query.Outcome {
		case domain.OutcomeAllowed:
			db = db.Where("allowed > 0")
		case domain.OutcomeRefused:
			db = db.Where("refused > 0")
		}
		return db.Find(&rows).Error
	})
	for i := range rows {
		span := spans[rows[i].Block]
		from := len(ids)
		ids = parseIDs(rows[i].IDs, ids)
		ids = append(ids[:from], slices.DeleteFunc(ids[from:], func(id int64) bool { return id < span.first || id > span.last })...)
	}
	slices.Sort(ids)
	return ids, err
}

// byIndex fetches rows by an index that has few of them.
func (s *callSearch) byIndex(table string) func(idSpan) error {
	return func(span idSpan) error {
		return s.fetch(table, func(db *gorm.DB) *gorm.DB { return between(db, span) })
	}
}

// inRuns looks through blocks, those that are neighbours together, at most so many.
func (s *callSearch) inRuns(blocks []idSpan, most int, look func(idSpan) error) error {
	for i := 0; i < len(blocks) && s.missing() > 0; {
		run, n := blocks[i], i+1
		for n < len(blocks) && n-i < most && (run.last+1 == blocks[n].first || blocks[n].last+1 == run.first) {
			run.first, run.last = min(run.first, blocks[n].first), max(run.last, blocks[n].last)
			n++
		}
		if err := look(run); err != nil {
			return err
		}
		i = n
	}
	return nil
}
