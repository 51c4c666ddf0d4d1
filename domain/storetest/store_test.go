package storetest_test

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// memory is a small store that is correct, unless its faults say otherwise.
type memory struct {
	faults
	mu    sync.Mutex
	state state
	begun *state   // as it was when the unit of work under way began
	later []func() // what a store that keeps slices has yet to do
}

type state struct {
	windows map[domain.WindowID]row
	calls   []domain.Call
	lastID  int64
	quotas  map[[2]string]domain.QuotaChange // by policy and key
	pruned  map[string]domain.PrunedCalls    // by policy
}

type row struct {
	tally   domain.Tally
	expires time.Time
}

// faults are where a store can be made to do wrong. A nil one does right.
type faults struct {
	slot    func(m *memory, s *domain.Slot)                                                   // takes a slot for another
	read    func(w *domain.LedgerWindow)                                                      // reads a window wrongly
	between func(h *handle)                                                                   // lets others in between reading and writing
	decide  func(ctx context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) // takes otherwise
	write   func(domain.Tally) domain.Tally                                                   // keeps other numbers
	expiry  func(old row, expires time.Time) time.Time                                        // keeps another expiry
	looked  func(m *memory, slots []domain.Slot, tallies []domain.Tally)                      // is called by every look
	reset   func(m *memory, policy, key string)                                               // forgets otherwise
	sweep   func(now *time.Time, limit *int)                                                  // sweeps something else
	swept   func(n int) int                                                                   // answers another number
	call    func(c *domain.Call)                                                              // keeps another call
	append  func(h *handle, calls []domain.Call) error                                        // appends otherwise
	query   func(q *domain.CallQuery)                                                         // answers another question
	matches func(query domain.CallQuery, call domain.Call) bool                               // filters otherwise
	page    func(m *memory, query domain.CallQuery, all []domain.Call) []domain.Call          // cuts pages otherwise
	restore func(m *memory, before state)                                                     // takes back otherwise
	quota   func(m *memory, c *domain.QuotaChange, call *domain.Call) bool                    // changes another quota; false if none
	list    func(after *string, quotas []domain.Quota)                                        // lists quotas otherwise
	tells   func(after *int64, c domain.QuotaChange) bool                                     // whether to tell a change
	total   func(q domain.TotalQuery, c *domain.Call) bool                                    // adds up another call; false if none
	sum     func(q domain.TotalQuery, total *domain.Total)                                    // adds up something else of a call
	sums    func(h *handle, q domain.TotalQuery) []domain.Total                               // adds up otherwise
	agesAll bool                                                                              // prunes what must stay
	prune   func(m *memory, p *domain.Prune)                                                  // prunes something else
	alike   func(policy, other string) bool                                                   // takes a policy for another
	order   func(calls []domain.Call)                                                         // prunes in another order
	goes    func(c domain.Call, goes bool) bool                                               // prunes other calls
	astray  func(c domain.Call, misdated bool) bool                                           // believes other times
	pruned  func(told *domain.PrunedCalls)                                                    // remembers otherwise what is gone
	pruning func(h *handle)                                                                   // lets others in while it prunes
	curt    bool                                                                              // never says that there is more to prune
	windows func(after domain.LedgerWindow, limit int, all []domain.LedgerWindow) []domain.LedgerWindow
	dirty   bool // lets others in while work runs
	keeps   bool // reads the caller's slices later
	deaf    bool // does not mind the context
}

// handle is one of several on a memory.
type handle struct {
	*memory
	own *sync.Mutex // for a store that locks each handle by itself
}

func newMemory(f faults) *memory {
	return &memory{faults: f, state: state{
		windows: map[domain.WindowID]row{}, quotas: map[[2]string]domain.QuotaChange{}, pruned: map[string]domain.PrunedCalls{},
	}}
}

func (m *memory) open() *handle { return &handle{m, new(sync.Mutex)} }

// unit is the store while it is locked.
type unit struct{ *handle }

// locked runs f as the only one, unless the context has ended.
func locked(ctx context.Context, h *handle, f func(unit) error) error {
	h.own.Lock()
	defer h.own.Unlock()
	if h.deaf {
		ctx = context.Background()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.later {
		f()
	}
	h.later = nil
	return f(unit{h})
}

func (h *handle) Take(ctx context.Context, takes []domain.Take) (taken []domain.Taken, err error) {
	err = locked(ctx, h, func(u unit) error { taken, err = u.Take(ctx, takes); return err })
	return taken, err
}

func (h *handle) Look(ctx context.Context, slots []domain.Slot) (tallies []domain.Tally, err error) {
	err = locked(ctx, h, func(u unit) error { tallies, err = u.Look(ctx, slots); return err })
	return tallies, err
}

func (h *handle) Reset(ctx context.Context, policy, key string) error {
	return locked(ctx, h, func(u unit) error { return u.Reset(ctx, policy, key) })
}

func (h *handle) Append(ctx context.Context, calls []domain.Call) error {
	return locked(ctx, h, func(u unit) error { return u.Append(ctx, calls) })
}

func (h *handle) Calls(ctx context.Context, query domain.CallQuery) (calls []domain.Call, err error) {
	err = locked(ctx, h, func(u unit) error { calls, err = u.Calls(ctx, query); return err })
	return calls, err
}

func (h *handle) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	if h.dirty {
		h.mu.Lock()
		before := h.copy()
		h.mu.Unlock()
		err := work(h, h)
		others()
		if err != nil {
			h.mu.Lock()
			h.state = before
			h.mu.Unlock()
		}
		return err
	}
	return locked(ctx, h, func(u unit) (err error) {
		before := h.copy()
		h.begun = &before
		kept := false
		defer func() {
			h.begun = nil
			switch {
			case kept:
			case h.restore != nil:
				h.restore(h.memory, before)
			default:
				h.state = before
			}
		}()
		err = work(u, u)
		kept = err == nil
		return err
	})
}

func (m *memory) copy() state {
	return state{maps.Clone(m.state.windows), slices.Clip(m.state.calls), m.state.lastID, maps.Clone(m.state.quotas), maps.Clone(m.state.pruned)}
}

// fill reads the windows of a ledger.
func (m *memory) fill(ledger *domain.Ledger) {
	for i := range ledger.Windows {
		w := &ledger.Windows[i]
		w.Tally = m.state.windows[w.ID()].tally
		if m.read != nil {
			m.read(w)
		}
	}
}

// seen is the slots as the store sees them.
func (m *memory) seen(slots []domain.Slot) []domain.Slot {
	slots = slices.Clone(slots)
	for i := range slots {
		if m.slot != nil {
			m.slot(m, &slots[i])
		}
	}
	return slots
}

func (u unit) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	if u.keeps { // answers now and writes later, when the slice may be another
		back := remember(u.handle, takes...)
		taken := u.take(takes)
		back()
		u.later = append(u.later, func() { u.take(takes) })
		return taken, nil
	}
	if u.decide != nil {
		return u.decide(ctx, u.handle, takes)
	}
	return u.take(takes), nil
}

func (h *handle) take(takes []domain.Take) []domain.Taken {
	takes = slices.Clone(takes)
	for i := range takes {
		takes[i].Slots = h.seen(takes[i].Slots)
	}
	ledger := domain.NewLedger(takes)
	h.fill(ledger)
	if h.between != nil {
		h.between(h)
	}
	taken := ledger.Settle(takes)
	for i := range ledger.Windows {
		w := &ledger.Windows[i]
		if !w.Changed {
			continue
		}
		old := h.state.windows[w.ID()]
		tally := domain.Tally{Count: w.Tally.Count, Refused: w.Tally.Refused}
		if h.write != nil {
			tally = h.write(tally)
		}
		expires := w.Expires
		if h.expiry != nil {
			expires = h.expiry(old, expires)
		}
		h.state.windows[w.ID()] = row{tally, expires}
	}
	return taken
}

func (u unit) Look(_ context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	seen := u.seen(slots)
	ledger := domain.NewLookLedger(seen)
	u.fill(ledger)
	tallies := ledger.Look(seen)
	if u.looked != nil {
		u.looked(u.memory, seen, tallies)
	}
	return tallies, nil
}

func (u unit) Reset(_ context.Context, policy, key string) error {
	if u.reset != nil {
		u.reset(u.memory, policy, key)
		return nil
	}
	s := u.seen([]domain.Slot{{Policy: policy, Key: key}})[0]
	maps.DeleteFunc(u.state.windows, func(id domain.WindowID, _ row) bool { return id.Policy == s.Policy && id.Key == s.Key })
	return nil
}

func (h *handle) Sweep(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = locked(ctx, h, func(u unit) error {
		if h.sweep != nil {
			h.sweep(&now, &limit)
		}
		for id, row := range h.state.windows {
			if removed < limit && !row.expires.After(now) {
				delete(h.state.windows, id)
				removed++
			}
		}
		if h.swept != nil {
			removed = h.swept(removed)
		}
		return nil
	})
	return removed, err
}

func (u unit) Append(ctx context.Context, calls []domain.Call) error {
	if err := ctx.Err(); err != nil && !u.deaf {
		return err
	}
	if u.keeps {
		u.later = append(u.later, func() { u.add(calls) })
		return nil
	}
	if u.append != nil {
		return u.append(u.handle, calls)
	}
	u.add(calls)
	return nil
}

func (m *memory) add(calls []domain.Call) {
	for _, call := range calls {
		m.state.lastID++
		call.ID = m.state.lastID
		if m.call != nil {
			m.call(&call)
		}
		m.state.calls = append(m.state.calls, call)
	}
}

func (u unit) Calls(_ context.Context, query domain.CallQuery) ([]domain.Call, error) {
	asked := query
	if u.query != nil {
		u.query(&query)
	}
	enough := query.Limit
	if u.page != nil {
		enough = math.MaxInt
	}
	all := []domain.Call{}
	for i := 0; i < len(u.state.calls) && len(all) < enough; i++ {
		call := &u.state.calls[i]
		if !query.OldestFirst {
			call = &u.state.calls[len(u.state.calls)-1-i]
		}
		if u.matches == nil && query.Matches(call) || u.matches != nil && u.matches(query, *call) {
			all = append(all, *call)
		}
	}
	if u.page != nil {
		return u.page(u.memory, asked, all), nil
	}
	return all, nil
}

func match(query domain.CallQuery, c domain.Call) bool { return query.Matches(&c) }

func (h *handle) ChangeQuota(ctx context.Context, change domain.QuotaChange, call domain.Call) error {
	return locked(ctx, h, func(u unit) error {
		for _, c := range h.state.quotas {
			change.Revision = max(change.Revision, c.Revision)
		}
		change.Revision++
		if h.quota != nil && !h.quota(h.memory, &change, &call) {
			return nil
		}
		h.state.quotas[[2]string{change.Policy, change.Key}] = change
		if call.Kind != "" {
			h.add([]domain.Call{call})
		}
		return nil
	})
}

func (h *handle) Quotas(ctx context.Context, policy, after string, limit int) (quotas []domain.Quota, err error) {
	err = locked(ctx, h, func(u unit) error {
		for _, c := range h.state.quotas {
			if c.Policy == policy && !c.Removed {
				quotas = append(quotas, c.Quota)
			}
		}
		slices.SortFunc(quotas, func(a, b domain.Quota) int { return cmp.Compare(a.Key, b.Key) })
		if h.list != nil {
			h.list(&after, quotas)
		}
		quotas = slices.DeleteFunc(quotas, func(q domain.Quota) bool { return q.Key <= after })
		quotas = quotas[:min(limit, len(quotas))]
		return nil
	})
	return quotas, err
}

func (h *handle) QuotaChanges(ctx context.Context, after int64, limit int) (changes []domain.QuotaChange, err error) {
	err = locked(ctx, h, func(u unit) error {
		for _, c := range h.state.quotas {
			after := after
			if (h.tells == nil || h.tells(&after, c)) && c.Revision > after {
				changes = append(changes, c)
			}
		}
		slices.SortFunc(changes, func(a, b domain.QuotaChange) int { return cmp.Compare(a.Revision, b.Revision) })
		changes = changes[:min(limit, len(changes))]
		return nil
	})
	return changes, err
}
