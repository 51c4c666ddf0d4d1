package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// How a unit of work on PostgreSQL reaches the server: in batches, of one round trip each.

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
