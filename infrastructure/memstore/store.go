package memstore

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// ErrFull says that the store holds as many windows as it may. Nothing was counted.
var ErrFull = errors.New("the store in memory is full of windows")

// Options tune a store. The zero value is good.
type Options struct {
	// MaxCalls is how many calls the log keeps, the newest. Default 100 000.
	MaxCalls int
	// MaxWindows is how many windows the store holds, see [ErrFull]. Default
	// 1 000 000, some 430 bytes each with short keys.
	MaxWindows int
}

// Store keeps everything in memory. It is safe for concurrent use.
type Store struct {
	options Options
	// turn is held by whoever reads or changes what follows. It is a channel, not a
	// mutex, so that waiting for it ends with a context.
	turn chan struct{}

	windows  map[domain.WindowID]*window
	owners   map[owner][]*window // the same windows, for resets
	expiring expiring            // the same windows, for sweeps
	calls    []domain.Call       // in the order of IDs
	lastID   int64
	pruned   map[string]domain.PrunedCalls // by policy, what is gone of the calls
	quotas   []domain.QuotaChange          // in the order of revisions, one for each owner
}

var (
	_ domain.UnitOfWork   = (*Store)(nil)
	_ domain.Counter      = (*Store)(nil)
	_ domain.AuditLog     = (*Store)(nil)
	_ domain.Totaler      = (*Store)(nil)
	_ domain.CallPruner   = (*Store)(nil)
	_ domain.Sweeper      = (*Store)(nil)
	_ domain.WindowLister = (*Store)(nil)
	_ domain.Quotas       = (*Store)(nil)
)

// owner is a key under a policy.
type owner struct{ policy, key string }

// window is a window that was hit.
type window struct {
	id             domain.WindowID
	count, refused int64
	expires        time.Time
	place          int // in expiring
}

// New makes an empty store.
func New(options Options) *Store {
	if options.MaxCalls <= 0 {
		options.MaxCalls = 100_000
	}
	if options.MaxWindows <= 0 {
		options.MaxWindows = 1_000_000
	}
	return &Store{
		options: options, turn: make(chan struct{}, 1),
		windows: map[domain.WindowID]*window{}, owners: map[owner][]*window{}, pruned: map[string]domain.PrunedCalls{},
	}
}

// Do implements [domain.UnitOfWork]. Work has the store for itself until it
// returns; it must use the counter and the log that it is given, and would wait for
// ever for the store's own methods.
func (s *Store) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	return s.locked(ctx, func(u *unit) error { return work(u, u) })
}

// locked runs f when it is its turn. What f did is taken back if f fails or panics.
func (s *Store) locked(ctx context.Context, f func(*unit) error) error {
	if err := ctx.Err(); err != nil { // select chooses at random where both can go on
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	u := &unit{Store: s, logged: len(s.calls)}
	kept := false
	defer func() {
		if kept {
			s.trim()
		} else {
			u.rollBack()
		}
		<-s.turn
	}()
	err := f(u)
	kept = err == nil
	return err
}

// Sweep implements [domain.Sweeper].
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.locked(ctx, func(u *unit) error {
		for removed < limit && len(s.expiring) > 0 && !s.expiring[0].expires.After(now) {
			s.remove(s.expiring[0])
			removed++
		}
		return nil
	})
	return removed, err
}

// add and remove keep the three lists of windows alike.

func (s *Store) add(w *window) {
	of := owner{w.id.Policy, w.id.Key}
	s.windows[w.id] = w
	s.owners[of] = append(s.owners[of], w)
	heap.Push(&s.expiring, w)
}

func (s *Store) remove(w *window) {
	of := owner{w.id.Policy, w.id.Key}
	delete(s.windows, w.id)
	heap.Remove(&s.expiring, w.place)
	var others []*window // a new slice: a reset may be walking through the old one
	for _, other := range s.owners[of] {
		if other != w {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		delete(s.owners, of)
	} else {
		s.owners[of] = others
	}
}

// expiring is a heap of windows, the first to expire on top.
type expiring []*window

func (e expiring) Len() int           { return len(e) }
func (e expiring) Less(i, j int) bool { return e[i].expires.Before(e[j].expires) }
func (e expiring) Swap(i, j int)      { e[i], e[j] = e[j], e[i]; e[i].place, e[j].place = i, j }
func (e *expiring) Push(w any)        { w.(*window).place = len(*e); *e = append(*e, w.(*window)) }
func (e *expiring) Pop() any {
	last := len(*e) - 1
	w := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return w
}
