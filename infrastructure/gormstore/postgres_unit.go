package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// pgUnit is a unit of work on PostgreSQL. It sends what it has to write in one
// message with the commit, or earlier if the work wants to read it.
type pgUnit struct {
	store *Postgres
	pool  *sql.DB
	ctx   context.Context
	conn  *sql.Conn // nil until something is sent

	open  bool // a transaction is under way
	holds bool // and has changed something or may hold locks: it cannot begin again

	// To be written. Resets are done before windows are read, so that at most one of
	// the first two is there.
	resets  []policyKey
	windows []domain.LedgerWindow
	calls   []domain.Call

	forgotten []policyKey // all resets of this unit
	logged    bool        // calls were appended
	chains    []any       // names of chains and the hashes of their last calls, once those are linked
}

type policyKey struct{ policy, key string }

// Do implements [domain.UnitOfWork]. Work that takes in several steps keeps its
// locks from step to step. Two such units may each wait for the other; then one of
// them fails.
func (p *Postgres) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	return p.transact(ctx, func(u *pgUnit) error { return work(u, u) })
}

func (p *Postgres) transact(ctx context.Context, work func(*pgUnit) error) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	u := &pgUnit{store: p, pool: p.writes, ctx: ctx}
	defer u.release() // also when work panics
	if err := work(u); err != nil {
		return err
	}
	if err := u.commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if u.logged {
		p.blocks.appended()
	}
	return nil
}

// Take implements [domain.Counter] inside a unit of work: it locks the windows, lets
// the domain decide, and remembers what is to be written.
func (u *pgUnit) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	ctx, stop := u.both(ctx)
	defer stop()
	ledger := domain.NewLedger(takes)
	err := u.flush(ctx, false)
	if err == nil {
		err = u.lock(ctx, ledger)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %d windows: %w", len(ledger.Windows), err)
	}
	taken := ledger.Settle(takes)
	u.windows = slices.DeleteFunc(ledger.Windows, func(w domain.LedgerWindow) bool { return !w.Changed })
	return taken, nil
}

// lock locks the windows of the ledger and fills in their tallies. Locks are taken
// in the order of the primary key, so that units of work cannot wait for each other
// in a circle. That takes rows to lock: windows that are missing are made first, at
// zero, in a transaction of their own.
func (u *pgUnit) lock(ctx context.Context, ledger *domain.Ledger) error {
	wanted := identities(ledger.Windows)
	var missing []domain.LedgerWindow
	for {
		batch := &pgx.Batch{}
		switch {
		case len(missing) == 0:
		case u.holds:
			batch.Queue(u.store.statements.makeWindows, windowArrays(missing)...)
		default:
			if u.open {
				batch.Queue(`ROLLBACK`)
				u.open = false
			}
			batch.Queue(beginPostgres)
			batch.Queue(doNotWait) // they are worth nothing
			batch.Queue(u.store.statements.makeWindows, windowArrays(missing)...)
			batch.Queue(`COMMIT`)
		}
		u.begin(ctx, batch)
		found := make([]bool, len(ledger.Windows))
		batch.Queue(lockWindows, wanted...).Query(func(rows pgx.Rows) error { return scanTallies(rows, ledger, found) })
		if err := u.send(ctx, batch, true); err != nil {
			return err
		}
		missing = missing[:0]
		for i := range ledger.Windows {
			if w := &ledger.Windows[i]; !found[i] && !w.Expires.IsZero() { // what is only looked back at need not be there
				missing = append(missing, domain.LedgerWindow{Policy: w.Policy, Key: w.Key, Schedule: w.Schedule, Start: w.Start, Expires: w.Expires})
			}
		}
		if len(missing) == 0 {
			u.holds = true
			return nil
		}
		slices.SortFunc(missing, byPrimaryKey)
	}
}

func byPrimaryKey(a, b domain.LedgerWindow) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Schedule, b.Schedule), a.Start.Compare(b.Start))
}

// scanTallies fills in the tallies of the windows that exist, and marks them as found.
func scanTallies(rows pgx.Rows, ledger *domain.Ledger, found []bool) error {
	for rows.Next() {
		var n int64
		var tally domain.Tally
		if err := rows.Scan(&n, &tally.Count, &tally.Refused); err != nil {
			return err
		}
		ledger.Windows[n-1].Tally = tally
		if found != nil {
			found[n-1] = true
		}
	}
	return rows.Err()
}

// Look implements [domain.Counter] inside a unit of work.
func (u *pgUnit) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	ctx, stop := u.both(ctx)
	defer stop()
	ledger := domain.NewLookLedger(slots)
	err := u.flush(ctx, false)
	if err == nil {
		batch := &pgx.Batch{}
		u.begin(ctx, batch)
		batch.Queue(readWindows, identities(ledger.Windows)...).Query(func(rows pgx.Rows) error { return scanTallies(rows, ledger, nil) })
		err = u.send(ctx, batch, true)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d windows: %w", len(ledger.Windows), err)
	}
	return ledger.Look(slots), nil
}

// Reset implements [domain.Counter] inside a unit of work.
func (u *pgUnit) Reset(ctx context.Context, policy, key string) error {
	if len(u.windows) > 0 {
		ctx, stop := u.both(ctx)
		defer stop()
		if err := u.flush(ctx, false); err != nil {
			return fmt.Errorf("reset: %w", err)
		}
	}
	if reset := (policyKey{policy, key}); !slices.Contains(u.resets, reset) {
		u.resets = append(u.resets, reset)
	}
	return nil
}

// Append implements [domain.AuditLog] inside a unit of work.
func (u *pgUnit) Append(_ context.Context, calls []domain.Call) error {
	u.calls = append(u.calls, calls...)
	u.logged = u.logged || len(calls) > 0
	return nil
}

// Calls implements [domain.AuditLog] inside a unit of work.
func (u *pgUnit) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	ctx, stop := u.both(ctx)
	defer stop()
	if err := u.flush(ctx, true); err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	tx, err := u.gorm(ctx)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	return postgresEngine.calls(func(do func(*gorm.DB) error) error { return do(tx) }, query)
}

// lockQuotas makes this unit the only one that changes quotas.
func (u *pgUnit) lockQuotas() (*gorm.DB, error) {
	batch := &pgx.Batch{}
	u.begin(u.ctx, batch)
	batch.Queue(lockQuotas)
	if err := u.send(u.ctx, batch, true); err != nil {
		return nil, err
	}
	u.holds = true
	return u.gorm(u.ctx)
}

// gorm is GORM in the transaction.
func (u *pgUnit) gorm(ctx context.Context) (*gorm.DB, error) {
	if u.conn == nil {
		batch := &pgx.Batch{}
		u.begin(ctx, batch)
		if err := u.send(ctx, batch, true); err != nil {
			return nil, err
		}
	}
	tx := u.store.onWrites.Session(&gorm.Session{NewDB: true, Context: ctx})
	tx.Statement.ConnPool = u.conn
	return tx, nil
}
