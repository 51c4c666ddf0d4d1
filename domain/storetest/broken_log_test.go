package storetest_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// block is how many calls some stores sum up at a time.
const block = 16384

// bounds makes a store read the bounds of spans otherwise.
func bounds(f func(time.Time) time.Time) faults {
	return query(func(q *domain.CallQuery) {
		if !q.From.IsZero() {
			q.From = f(q.From)
		}
		if !q.To.IsZero() {
			q.To = f(q.To)
		}
	})
}

// filter makes a store compare queries with calls otherwise.
func filter(f func(q *domain.CallQuery, c *domain.Call)) faults {
	return faults{matches: func(q domain.CallQuery, c domain.Call) bool { f(&q, &c); return match(q, c) }}
}

// hit makes a store take a call for another when it adds up.
func hit(f func(q *domain.TotalQuery, c *domain.Call)) faults {
	return faults{total: func(q domain.TotalQuery, c *domain.Call) bool { f(&q, c); return q.Matches(c) }}
}

// sum makes a store add up something else.
func sum(f func(q domain.TotalQuery, total *domain.Total)) faults { return faults{sum: f} }

// brokenLogs do wrong with what only some stores do, and with long logs.
var brokenLogs = []broken{
	// Filters.
	{"begins after the beginning", []string{"Filters/a span has its beginning and not its end, to the millisecond"}, query(func(q *domain.CallQuery) {
		if !q.From.IsZero() {
			q.From = q.From.Add(time.Millisecond)
		}
	})},
	{"ends after the end", []string{"Filters/a span has its beginning and not its end, to the millisecond"}, query(func(q *domain.CallQuery) {
		if !q.To.IsZero() {
			q.To = q.To.Add(time.Millisecond)
		}
	})},
	{"compares seconds", []string{"Filters/a span has its beginning and not its end, to the millisecond"},
		bounds(func(at time.Time) time.Time { return at.Truncate(time.Second) })},
	{"rounds bounds down", []string{"Filters/a span has its beginning and not its end, to the millisecond"},
		bounds(func(at time.Time) time.Time { return at.Truncate(time.Millisecond) })},
	{"filters in local time", []string{"Filters/a span is the same in every time zone"}, bounds(func(at time.Time) time.Time {
		_, offset := at.Zone()
		return at.Add(time.Duration(offset) * time.Second)
	})},
	{"paths by their beginning", []string{"Filters/path and request are compared byte for byte"}, filter(func(q *domain.CallQuery, c *domain.Call) {
		if strings.HasPrefix(c.Path, q.Path) {
			c.Path = q.Path
		}
	})},
	{"folds requests", []string{"Filters/path and request are compared byte for byte"}, filter(func(q *domain.CallQuery, c *domain.Call) {
		q.RequestID, c.RequestID = strings.ToLower(q.RequestID), strings.ToLower(c.RequestID)
	})},
	{"ignores kinds", []string{"Filters/kinds are picked", "Filters/any filters agree with a plain model, in pages of any size"},
		query(func(q *domain.CallQuery) { q.Kinds = nil })},
	{"knows the first kind only", []string{"Filters/kinds are picked"}, query(func(q *domain.CallQuery) { q.Kinds = q.Kinds[:min(len(q.Kinds), 1)] })},
	{"one filter at a time", []string{"Filters/any filters agree with a plain model, in pages of any size"}, filter(func(q *domain.CallQuery, c *domain.Call) {
		if q.Policy != "" && q.RequestID != "" {
			q.RequestID = ""
		}
	})},
	{"pages by time", []string{"Filters/a hundred calls of one millisecond come in pages of ten, each once"}, faults{page: byTime}},

	// Totals.
	{"adds up resets", []string{"Totals/what is no hit is left out", "Totals/sums are those of what Calls returns, by anything"},
		hit(func(_ *domain.TotalQuery, c *domain.Call) { c.Kind = domain.CallHit })},
	{"adds up calls", []string{"Totals/units are added up, and what was refused is kept apart"}, hit(func(_ *domain.TotalQuery, c *domain.Call) { c.Cost, c.Hits = 1, 1 })},
	{"adds up hits", []string{"Totals/units are added up, and what was refused is kept apart"}, hit(func(_ *domain.TotalQuery, c *domain.Call) { c.Cost = 1 })},
	{"drops refused units", []string{"Totals/units are added up, and what was refused is kept apart"}, sum(func(_ domain.TotalQuery, total *domain.Total) { total.Refused = 0 })},
	{"lets the shadow pass", []string{"Totals/units are added up, and what was refused is kept apart"},
		hit(func(_ *domain.TotalQuery, c *domain.Call) { c.Allowed = c.Allowed || c.Shadow })},
	{"sums are whole", []string{"Totals/a sum is partial if a hit in it is of a log that lacks some"}, sum(func(_ domain.TotalQuery, total *domain.Total) { total.Partial = false })},
	{"sums are partial", []string{"Totals/a sum is partial if a hit in it is of a log that lacks some"}, sum(func(_ domain.TotalQuery, total *domain.Total) { total.Partial = true })},
	{"sums wrap", []string{"Totals/sums stop at the largest number and do not wrap"}, faults{sums: wrapping}},
	{"adds up whole minutes", []string{"Totals/sums have the hits of their span, to the millisecond"}, hit(func(q *domain.TotalQuery, _ *domain.Call) {
		q.From, q.To = q.From.Truncate(time.Minute), q.To.Truncate(time.Minute)
	})},
	{"adds up hours", []string{"Totals/minutes are kept apart, and what is the same need not be"}, sum(func(_ domain.TotalQuery, total *domain.Total) { total.At = total.At.Truncate(time.Hour) })},
	{"adds up days in UTC", []string{"Totals/minutes are kept apart, and what is the same need not be"}, sum(func(q domain.TotalQuery, total *domain.Total) {
		if q.By == domain.UsageByDay {
			total.At = total.At.Truncate(24 * time.Hour)
		}
	})},
	{"folds groups", []string{"Totals/groups are kept apart byte for byte"}, sum(func(_ domain.TotalQuery, total *domain.Total) { total.Group = strings.ToLower(total.Group) })},
	{"adds up every path", []string{"Totals/sums are those of what Calls returns, by anything"}, hit(func(q *domain.TotalQuery, _ *domain.Call) { q.Path = "" })},
	{"adds up what moves", []string{"Totals/every hit that was there is in the sum once while others arrive"}, faults{sums: moving}},

	// Pruning.
	{"prunes what was made then", []string{"Prune/what was made before goes, what was made then stays"},
		faults{prune: func(_ *memory, p *domain.Prune) { p.Before = p.Before.Add(time.Millisecond) }}},
	{"prunes to the second", []string{"Prune/what was made before goes, what was made then stays"},
		faults{prune: func(_ *memory, p *domain.Prune) { p.Before = p.Before.Truncate(time.Second) }}},
	{"keeps one call too few", []string{"Prune/so many are kept, those with the largest IDs"},
		faults{prune: func(_ *memory, p *domain.Prune) { p.Most = max(p.Most-1, min(p.Most, 1)) }}},
	{"keeps the youngest", []string{"Prune/so many are kept, those with the largest IDs"}, faults{order: func(calls []domain.Call) {
		slices.SortStableFunc(calls, func(a, b domain.Call) int { return a.At.Compare(b.At) })
	}}},
	{"prunes the newest first", []string{"Prune/the oldest go first, at most so many, until it is said that none is left"}, faults{order: slices.Reverse[[]domain.Call]}},
	{"prunes up to the last old call", []string{"Prune/what is younger stays, also before and behind what is old"}, throughLastOld()},
	{"waits for what is misdated to grow old", []string{"Prune/what is misdated goes with the next that is not"},
		faults{astray: func(domain.Call, bool) bool { return false }}},
	{"prunes what is misdated", []string{"Prune/what is misdated goes with the next that is not"},
		faults{goes: func(c domain.Call, goes bool) bool { return goes || time.Until(c.At) > 100*24*time.Hour }}},
	{"believes no clock that is a minute ahead", []string{"Prune/what is misdated goes with the next that is not"},
		faults{prune: func(_ *memory, p *domain.Prune) { p.At = p.At.Add(-time.Millisecond) }}},
	{"prunes without a bound", []string{"Prune/the oldest go first, at most so many, until it is said that none is left"},
		faults{prune: func(_ *memory, p *domain.Prune) { p.Limit = math.MaxInt }}},
	{"says too early that all is pruned", []string{"Prune/the oldest go first, at most so many, until it is said that none is left"}, faults{curt: true}},
	{"prunes what administrators did", []string{"Prune/calls of every kind that ages go, of the policy and of no other"}, faults{agesAll: true}},
	{"prunes other policies", []string{"Prune/calls of every kind that ages go, of the policy and of no other"}, faults{alike: strings.EqualFold}},
	{"prunes policies by their beginning", []string{"Prune/calls of every kind that ages go, of the policy and of no other"}, faults{alike: strings.HasPrefix}},
	{"prunes every policy", []string{"Prune/calls of every kind that ages go, of the policy and of no other"}, faults{alike: func(string, string) bool { return true }}},
	{"prunes hits only", []string{"Prune/calls of every kind that ages go, of the policy and of no other"},
		faults{goes: func(c domain.Call, goes bool) bool { return goes && c.Kind == domain.CallHit }}},
	{"prunes by age or by number", []string{"Prune/age and number both remove"}, faults{prune: func(_ *memory, p *domain.Prune) {
		if !p.Before.IsZero() {
			p.Most = 0
		}
	}}},
	{"forgets what was pruned before", []string{"Prune/it is told what is gone"}, faults{pruned: func(told *domain.PrunedCalls) { told.Removed = 1 }}},
	{"tells the time of pruning in seconds", []string{"Prune/it is told what is gone"}, faults{pruned: func(told *domain.PrunedCalls) { told.At = told.At.Truncate(time.Second) }}},
	{"tells of prunings that removed nothing", []string{"Prune/it is told what is gone"}, faults{prune: func(m *memory, p *domain.Prune) {
		told := m.state.pruned[p.Policy]
		told.Policy, told.At = p.Policy, p.At
		m.state.pruned[p.Policy] = told
	}}},
	{"gives IDs again", []string{"Prune/an ID that is gone is not given again"}, faults{append: func(h *handle, calls []domain.Call) error {
		h.state.lastID = 0
		if n := len(h.state.calls); n > 0 {
			h.state.lastID = h.state.calls[n-1].ID
		}
		h.add(calls)
		return nil
	}}},
	{"takes IDs for places", []string{"Prune/pages go over what is gone"}, faults{page: byPlace}},
	{"writes back what it kept", []string{"Prune/beside running appends nothing is lost that must stay"}, faults{pruning: aside}},

	// Lists of windows.
	{"lists the last window again", []string{"WindowLister/windows come in the order of bytes and of time, and pages repeat and lose none"}, listing(nil, func(after, w domain.LedgerWindow) bool {
		return byID(w, after) >= 0
	})},
	{"goes on behind the key", []string{"WindowLister/windows come in the order of bytes and of time, and pages repeat and lose none"}, listing(nil, func(after, w domain.LedgerWindow) bool {
		return cmp.Or(strings.Compare(w.Policy, after.Policy), strings.Compare(w.Key, after.Key)) > 0
	})},
	{"lists windows without regard to case", []string{"WindowLister/windows come in the order of bytes and of time, and pages repeat and lose none"}, listing(func(a, b domain.LedgerWindow) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)), byID(a, b))
	}, nil)},
	{"lists windows by time", []string{"WindowLister/windows come in the order of bytes and of time, and pages repeat and lose none"}, listing(func(a, b domain.LedgerWindow) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), a.Start.Compare(b.Start), byID(a, b))
	}, nil)},
	{"lists unsigned times", []string{"WindowLister/windows before 1970 come first"}, listing(func(a, b domain.LedgerWindow) int {
		x, y := a.ID(), b.ID()
		x.Start, y.Start = 0, 0
		return cmp.Or(x.Compare(y), cmp.Compare(uint64(a.Start.Unix()), uint64(b.Start.Unix())))
	}, nil)},
	{"lists what is used", []string{"WindowLister/the windows are those that were hit, with what they hold"}, faults{windows: func(after domain.LedgerWindow, limit int, all []domain.LedgerWindow) []domain.LedgerWindow {
		all = beyond(after, all)
		for i := range all {
			all[i].Tally = domain.Tally{Count: all[i].Tally.Used()}
		}
		return all[:min(limit, len(all))]
	}}},
	{"begins at the first letter", []string{"WindowLister/from the zero window on all are listed"}, listing(nil, func(after, w domain.LedgerWindow) bool {
		return byID(w, after) > 0 && (after.Policy != "" || w.Policy >= "0")
	})},
	{"lists windows by offset", []string{"WindowLister/what is there all the while is listed once beside running hits"}, windowsByOffset()},

	// Long logs.
	{"loses the last call of a block", []string{"LongLog/a long log is paged through any filters"}, faults{matches: func(q domain.CallQuery, c domain.Call) bool {
		return match(q, c) && c.ID%block != 0
	}}},
	{"adds up a block without its last calls", []string{"LongLog/a long log is added up by anything, at once and later"}, faults{total: func(q domain.TotalQuery, c *domain.Call) bool {
		return q.Matches(c) && c.ID%block < block-8 // the very last may be no hit
	}}},
	{"adds up blocks that begin in the span", []string{"LongLog/a long log is added up by anything, at once and later"}, faults{sums: wholeBlocks}},
	{"keeps the sums of what is pruned", []string{"LongLog/what is left of a long log is paged and added up"}, cachedSums()},
}

// Ways to page otherwise.

// byTime goes on with another time than that of the last call.
func byTime(m *memory, q domain.CallQuery, all []domain.Call) []domain.Call {
	if i := slices.IndexFunc(m.state.calls, func(c domain.Call) bool { return c.ID == max(q.After, q.Before) }); i >= 0 {
		all = slices.DeleteFunc(all, func(c domain.Call) bool { return c.At.Equal(m.state.calls[i].At) })
	}
	return all[:min(q.Limit, len(all))]
}

// byPlace reckons from an ID where its call is, as if none were gone.
func byPlace(m *memory, q domain.CallQuery, _ []domain.Call) []domain.Call {
	n, first := int64(len(m.state.calls)), m.state.lastID-int64(len(m.state.calls))+1
	from, to := int64(0), n
	if q.After > 0 {
		from = min(max(q.After-first+1, 0), n)
	}
	if q.Before > 0 {
		to = max(min(max(q.Before-first, 0), n), from)
	}
	calls := slices.Clone(m.state.calls[from:to])
	if !q.OldestFirst {
		slices.Reverse(calls)
	}
	q.After, q.Before = 0, 0
	calls = slices.DeleteFunc(calls, func(c domain.Call) bool { return !match(q, c) })
	return calls[:min(q.Limit, len(calls))]
}

// Ways to add up otherwise.

func wrapping(h *handle, q domain.TotalQuery) []domain.Total {
	sums := []domain.Total{}
	groups := map[string]int{}
	for _, piece := range addUp(h, q) {
		i, known := groups[piece.Group]
		if !known || q.By.IsTime() {
			groups[piece.Group] = len(sums)
			sums = append(sums, piece)
			continue
		}
		sums[i].Allowed += piece.Allowed
		sums[i].Refused += piece.Refused
		sums[i].Partial = sums[i].Partial || piece.Partial
	}
	return sums
}

// moving goes back through the log by places while calls arrive.
func moving(h *handle, q domain.TotalQuery) (sums []domain.Total) {
	for back := 0; back < len(h.state.calls); back++ {
		if total, is := h.one(q, h.state.calls[len(h.state.calls)-1-back]); is {
			sums = append(sums, total)
			aside(h)
		}
	}
	return sums
}

// wholeBlocks looks at the first call of each block only to tell if it is in the span.
func wholeBlocks(h *handle, q domain.TotalQuery) (sums []domain.Total) {
	whole := q
	whole.From, whole.To = time.Time{}, time.Time{}
	in := true
	for i, call := range h.state.calls {
		if len(h.state.calls) < block {
			in, whole = true, q
		} else if i%1024 == 0 {
			in = (q.From.IsZero() || !call.At.Before(q.From)) && (q.To.IsZero() || call.At.Before(q.To))
		}
		if total, is := h.one(whole, call); is && in {
			sums = append(sums, total)
		}
	}
	return sums
}

// cachedSums adds up once what is in the log.
func cachedSums() faults {
	seen := map[*memory][]domain.Call{}
	return faults{sums: func(h *handle, q domain.TotalQuery) (sums []domain.Total) {
		for _, call := range h.state.calls {
			if n := len(seen[h.memory]); n == 0 || call.ID > seen[h.memory][n-1].ID {
				seen[h.memory] = append(seen[h.memory], call)
			}
		}
		for _, call := range seen[h.memory] {
			if total, is := h.one(q, call); is {
				sums = append(sums, total)
			}
		}
		return sums
	}}
}

// Ways to prune and to list otherwise.

func throughLastOld() faults {
	last := int64(0)
	return faults{
		prune: func(m *memory, p *domain.Prune) {
			last = 0
			for i := range m.state.calls {
				if c := &m.state.calls[i]; c.Policy == p.Policy && p.Old(c) {
					last = c.ID
				}
			}
		},
		goes: func(c domain.Call, goes bool) bool { return goes || c.ID <= last },
	}
}

// listing is a store that lists windows in another order, or goes on elsewhere.
func listing(order func(a, b domain.LedgerWindow) int, goesOn func(after, w domain.LedgerWindow) bool) faults {
	if order == nil {
		order = byID
	}
	if goesOn == nil {
		goesOn = func(after, w domain.LedgerWindow) bool { return order(w, after) > 0 }
	}
	return faults{windows: func(after domain.LedgerWindow, limit int, all []domain.LedgerWindow) []domain.LedgerWindow {
		slices.SortFunc(all, order)
		all = slices.DeleteFunc(all, func(w domain.LedgerWindow) bool { return !goesOn(after, w) })
		return all[:min(limit, len(all))]
	}}
}

// windowsByOffset goes on as many windows behind the first as it has listed.
func windowsByOffset() faults {
	var begin domain.LedgerWindow
	listed := 0
	return faults{windows: func(after domain.LedgerWindow, limit int, all []domain.LedgerWindow) []domain.LedgerWindow {
		if after.Key == "" {
			begin, listed = after, 0
		}
		all = beyond(begin, all)
		page := all[min(listed, len(all)):]
		page = page[:min(limit, len(page))]
		listed += len(page)
		return page
	}}
}
