package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
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

// flush writes what is to be written, so that the unit can read it.
func (u *pgUnit) flush(ctx context.Context, log bool) error {
	if len(u.resets)+len(u.windows) == 0 && (!log || len(u.calls) == 0) {
		return nil
	}
	if log && len(u.calls) > 0 && u.store.chained.Load() {
		if err := u.link(ctx); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	u.begin(ctx, batch)
	u.write(batch, log)
	u.holds = true
	return u.send(ctx, batch, false)
}

// commit writes what is to be written and keeps it. A unit without any work asks
// the server whether it would.
//
// Locks are not held while the disk is waited for: the commit itself does not wait,
// and a next, empty one does, behind it in the server's log.
func (u *pgUnit) commit() error {
	if len(u.calls) > 0 && u.store.chained.Load() {
		if err := u.link(u.ctx); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	u.begin(u.ctx, batch)
	before := batch.Len()
	u.write(batch, true)
	changes := u.holds || batch.Len() > before
	if changes {
		batch.Queue(doNotWait)
	}
	batch.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" { // some statement has failed and the work went on
			return errors.New("the server rolled back")
		}
		return nil
	})
	if changes {
		batch.Queue(waitForDisk)
	}
	return u.send(u.ctx, batch, !changes)
}

// pgGrace is how long after the client the server gives up.
const pgGrace = 20 * time.Millisecond

// begin begins the transaction unless one is under way.
func (u *pgUnit) begin(ctx context.Context, batch *pgx.Batch) {
	if u.open {
		return
	}
	statement, idle := int64(0), time.Minute.Milliseconds()
	if deadline, ok := ctx.Deadline(); ok {
		// A moment later than here, so that who waits is told that the time is over.
		idle = max(time.Until(deadline.Add(pgGrace)).Milliseconds(), 1)
		statement = idle
	}
	batch.Queue(beginPostgres)
	batch.Queue(settle, strconv.FormatInt(statement, 10), strconv.FormatInt(idle, 10))
	u.open = true
}

func (u *pgUnit) write(batch *pgx.Batch, log bool) {
	if len(u.resets) > 0 {
		batch.Queue(forget, policiesAndKeys(u.resets)...)
		u.forgotten = append(u.forgotten, u.resets...)
	}
	if len(u.windows) > 0 {
		batch.Queue(u.store.statements.upsertWindows, windowArrays(u.windows)...)
	}
	u.resets, u.windows = nil, nil
	if !log || len(u.calls) == 0 {
		return
	}
	batch.Queue(lockLog)
	if len(u.forgotten) > 0 {
		// A window that somebody made since has its calls before that of the reset, if
		// they are committed, and has to go. If they are not it is locked, and its
		// calls come after.
		batch.Queue(forgetNew, policiesAndKeys(u.forgotten)...)
	}
	if isFull(u.calls) {
		batch.Queue(u.store.statements.insertFull, fullCallArrays(u.calls)...)
	} else {
		batch.Queue(u.store.statements.insertCalls, callArrays(u.calls)...)
	}
	if u.chains != nil {
		batch.Queue(moveChains, u.chains...)
	}
	u.calls, u.chains = nil, nil
}

func policiesAndKeys(all []policyKey) []any {
	policies, keys := make([]string, len(all)), make([]string, len(all))
	for i, one := range all {
		policies[i], keys[i] = one.policy, one.key
	}
	return []any{policies, keys}
}

// send runs the batch in one round trip. A connection that turns out to be dead, as
// all are after the server has been restarted, is replaced: if the batch is the
// unit's first one, and harmless (it keeps nothing) or not sent.
func (u *pgUnit) send(ctx context.Context, batch *pgx.Batch, harmless bool) error {
	first := u.conn == nil
	for tries := 0; ; tries++ {
		if u.conn == nil {
			conn, err := u.pool.Conn(ctx)
			if err != nil {
				return err
			}
			u.conn = conn
		}
		dead := false
		err := u.raw(func(conn *pgx.Conn) error {
			err := conn.SendBatch(ctx, batch).Close()
			dead = conn.IsClosed()
			return err
		})
		if err == nil || !first || !dead || ctx.Err() != nil || tries >= pgConnections || !harmless && !pgconn.SafeToRetry(err) {
			return err
		}
		u.conn.Close()
		u.conn, batch = nil, again(batch)
	}
}

// again is the batch as it was before it was sent.
func again(sent *pgx.Batch) *pgx.Batch {
	batch := &pgx.Batch{}
	for _, query := range sent.QueuedQueries {
		batch.Queue(query.SQL, query.Arguments...).Fn = query.Fn
	}
	return batch
}

func (u *pgUnit) raw(do func(*pgx.Conn) error) error {
	return u.conn.Raw(func(conn any) error { return do(conn.(*stdlib.Conn).Conn()) })
}

// release gives the connection back. A transaction that is still under way is
// rolled back, by leaving the server if the time is over.
func (u *pgUnit) release() {
	if u.conn == nil {
		return
	}
	u.raw(func(conn *pgx.Conn) error {
		if conn.PgConn().TxStatus() != 'I' && u.ctx.Err() == nil {
			conn.Exec(u.ctx, `ROLLBACK`)
		}
		if !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
			return nil
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		conn.Close(over) // without waiting for an answer
		return driver.ErrBadConn
	})
	u.conn.Close()
}

// both ends when the unit's context does, or ctx.
func (u *pgUnit) both(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil || ctx == u.ctx {
		return u.ctx, func() {}
	}
	both, cancel := context.WithCancelCause(u.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return both, func() { stop(); cancel(nil) }
}
