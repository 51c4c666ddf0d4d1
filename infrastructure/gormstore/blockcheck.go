package gormstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
)

// checkBlocks holds blocks against the rows that they are made of, and tells found what
// does not fit: at most one thing of each policy in a block.
func (e *engine) checkBlocks(ctx context.Context, read reads, found func(table, policy, detail string)) error {
	var ends logEnds
	if err := read(func(db *gorm.DB) (err error) { ends, err = readEnds(db); return err }); err != nil {
		return fmt.Errorf("check blocks: %w", err)
	}
	for block := max(ends.first, 0) >> blockBits; block <= ends.top; block++ {
		for tries := 1; ; tries++ {
			faults, err := e.checkBlock(read, block)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("check block %d: %w", block, err)
			}
			if len(faults) > 0 && tries < 3 { // it may have been pruned while it was read
				continue
			}
			for _, f := range faults {
				found(f.table, f.policy, fmt.Sprintf("block %d: %s; with DELETE FROM api_calls_by_key and FROM api_call_blocks they are made anew", block, f.detail))
			}
			break
		}
	}
	return nil
}

type blockFault struct{ table, policy, detail string }

func (e *engine) checkBlock(read reads, block int64) (faults []blockFault, err error) {
	var groups []keyGroup
	var sums []blockRow
	var keys []keyRow
	err = read(func(db *gorm.DB) (err error) {
		if groups, err = e.groups(db, blockSpan(block, block)); err != nil {
			return err
		}
		if err := db.Where("block = ?", block).Find(&sums).Error; err != nil {
			return err
		}
		return db.Where("block = ?", block).Find(&keys).Error
	})
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	dueKeys, dueSums := e.rows(block, groups)
	wrong := map[string]bool{} // policies
	fault := func(table, policy, format string, args ...any) {
		if !wrong[policy] {
			wrong[policy] = true
			faults = append(faults, blockFault{table, policy, fmt.Sprintf(format, args...)})
		}
	}
	pruned := map[string]bool{}
	for i := range dueSums {
		due := &dueSums[i]
		at := slices.IndexFunc(sums, func(r blockRow) bool { return r.Policy == due.Policy })
		if at < 0 {
			fault("api_call_blocks", due.Policy, "the row of the policy is missing")
			continue
		}
		sum := &sums[at]
		pruned[due.Policy] = sum.Pruned
		if sum.Calls != due.Calls || !sum.Pruned && (sum.Allowed != due.Allowed || sum.Refused != due.Refused || sum.Partial != due.Partial) {
			fault("api_call_blocks", due.Policy, "the sums of the policy are not those of its calls")
		}
		if first, last := time.Time(due.FirstCalledAt), time.Time(due.LastCalledAt); first.Before(time.Time(sum.FirstCalledAt)) || last.After(time.Time(sum.LastCalledAt)) {
			fault("api_call_blocks", due.Policy, "the policy has calls before the first or after the last time that is told")
		}
	}
	held := make(map[[2]string]*keyRow, len(keys))
	for i := range keys {
		held[[2]string{keys[i].Key, keys[i].Policy}] = &keys[i]
	}
	for i := range dueKeys {
		due := &dueKeys[i]
		key := held[[2]string{due.Key, due.Policy}]
		switch {
		case key == nil:
			fault("api_calls_by_key", due.Policy, "the row of key %q is missing", due.Key)
		case pruned[due.Policy] && !hasAll(key.IDs, due.IDs), !pruned[due.Policy] && (key.IDs != due.IDs || key.Allowed != due.Allowed || key.Refused != due.Refused || key.Partial != due.Partial):
			fault("api_calls_by_key", due.Policy, "ids or sums of key %q are not those of its calls", due.Key)
		}
		delete(held, [2]string{due.Key, due.Policy})
	}
	for id := range held {
		if !pruned[id[1]] && slices.ContainsFunc(dueSums, func(r blockRow) bool { return r.Policy == id[1] }) {
			fault("api_calls_by_key", id[1], "there is a row of key %q, which has no calls", id[0])
		}
	}
	return faults, nil
}

// hasAll reports whether a list of ids has all of another.
func hasAll(list, ids string) bool {
	if list == ids {
		return true
	}
	all := parseIDs(list, nil)
	return !slices.ContainsFunc(parseIDs(ids, nil), func(id int64) bool { return !slices.Contains(all, id) })
}

// CheckDerived implements [domain.Derived].
func (s *Store) CheckDerived(ctx context.Context, found func(table, policy, detail string)) error {
	return sqliteEngine.checkBlocks(ctx, s.shortly(ctx), found)
}

// CheckDerived implements [domain.Derived].
func (p *Postgres) CheckDerived(ctx context.Context, found func(table, policy, detail string)) error {
	return postgresEngine.checkBlocks(ctx, p.shortly(ctx), found)
}
