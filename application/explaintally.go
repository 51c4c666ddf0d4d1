package application

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// findResets finds the resets in the window, and the last one that matters.
func (e *explaining) findResets(ctx context.Context) error {
	from := e.Window.Start
	if previous := e.Schedule.Previous(e.Window, e.AsOf); !previous.Window.Start.IsZero() {
		from = previous.Window.Start // a reset there takes what would be carried
	}
	query := domain.CallQuery{Policy: e.Policy, Key: e.Key, Kinds: []domain.CallKind{domain.CallReset}, From: from, To: e.Window.End}
	err := e.others(ctx, query, func(call *domain.Call) bool {
		if !call.At.After(e.AsOf) && (e.before == 0 || call.ID < e.before) {
			e.since = max(e.since, call.ID)
		}
		if !call.At.Before(e.Window.Start) && len(e.Resets) < domain.MaxSpent {
			e.Resets = append(e.Resets, *call)
		}
		return len(e.Resets) < domain.MaxSpent || e.since == 0
	})
	slices.Reverse(e.Resets)
	return err
}

// findPartial finds whether the log may lack hits of the window.
func (e *explaining) findPartial(ctx context.Context) (err error) {
	e.Partial = e.PolicySet != nil && e.PolicySet.Coverage != "" || e.last != nil && e.last.Coverage != ""
	if !e.Partial {
		e.Partial, err = e.history.prunedInPart(ctx, e.Policy, e.Window.Start)
	}
	return err
}

// findTally finds what the window held: by the counters if it is about now, else by the
// last hit in it.
func (e *explaining) findTally(ctx context.Context) error {
	if e.AsOf.Equal(e.NowAt) && e.before == 0 && e.Now != nil && e.Now.Schedule.Equal(e.Schedule) {
		e.Tally, e.TallyFrom = e.Now.Tally, domain.FromNow
		e.Refuses = false
		return nil
	}
	last := e.last
	if e.before == 0 {
		var err error
		if last, err = e.lastIn(ctx, e.Window, e.AsOf); err != nil {
			return err
		}
	}
	switch {
	case last != nil:
		e.Count, e.Refused, e.TallyFrom = last.Count, last.Refused, domain.FromCall
	case e.since > 0:
		e.TallyFrom = domain.FromReset
	}
	return e.findCarry(ctx)
}

// findCarry finds what weighs in of the window before, if the schedule slides.
func (e *explaining) findCarry(ctx context.Context) error {
	previous := e.Schedule.Previous(e.Window, e.AsOf)
	if previous.Den == 0 {
		return nil
	}
	last, err := e.lastIn(ctx, previous.Window, previous.Window.End.Add(-1))
	if err != nil || last == nil {
		return err
	}
	e.Previous = last.Count - last.Refused
	e.Carry = previous.Carry(e.Previous)
	if e.TallyFrom == domain.FromNothing {
		e.TallyFrom = domain.FromCall
	}
	return nil
}

// lastIn is the last hit in a window up to a time since the last reset, or nil if it is
// not among the newest ten thousand.
func (e *explaining) lastIn(ctx context.Context, window domain.Window, until time.Time) (found *domain.Call, err error) {
	query := e.query(domain.CallHit)
	query.From, query.To, query.After = window.Start, after(until), e.since
	for range hitPages {
		calls, err := e.history.read(ctx, query)
		if err != nil {
			return nil, err
		}
		for i := range calls {
			if e.isOf(&calls[i], window) {
				return &calls[i], nil
			}
		}
		if len(calls) < query.Limit {
			return nil, nil
		}
		query.Before, query.Limit = calls[len(calls)-1].ID, MaxPage // of a schedule that was in force before
	}
	return nil, nil
}

// isOf reports whether a hit was counted in a window of the schedule.
func (e *explaining) isOf(call *domain.Call, window domain.Window) bool {
	return call.WindowStart.Equal(window.Start) && (call.Schedule == e.Schedule.String() || call.Schedule == "")
}

// hitPages is how many pages of a key's hits are read at most for one answer.
const hitPages = 10

// findSpent finds what used the window up, and by which paths. The log's own sums would
// not tell of paths but by reading every call, which may be millions: of more than ten
// thousand the newest are added up, and the explanation says so.
func (e *explaining) findSpent(ctx context.Context) error {
	query := e.query()
	query.Outcome, query.From, query.After, query.Limit = domain.OutcomeAllowed, e.Window.Start, e.since, hitPages*MaxPage
	byPath, read := domain.TotalQuery{By: domain.UsageByPath}, 0
	sums := &usageSums{groups: map[usageID]*domain.UsageGroup{}, full: func(error) {}}
	for calls, err := range e.history.pages(ctx, query) {
		if err != nil {
			return err
		}
		read += len(calls)
		for i := range calls {
			if !e.isOf(&calls[i], e.Window) {
				continue
			}
			if len(e.Spent) < domain.MaxSpent {
				e.Spent = append(e.Spent, calls[i])
			}
			sums.add(byPath.Total(&calls[i]))
		}
	}
	if read == query.Limit {
		e.SpentOf = read
	}
	e.tellPaths(sums)
	return nil
}

// tellPaths tells the paths with most units.
func (e *explaining) tellPaths(sums *usageSums) {
	for _, group := range sums.groups {
		if group.Allowed > 0 {
			e.SpentByPath = append(e.SpentByPath, *group)
		}
	}
	slices.SortFunc(e.SpentByPath, func(a, b domain.UsageGroup) int {
		return cmp.Or(cmp.Compare(b.Allowed, a.Allowed), strings.Compare(a.Name, b.Name))
	})
	e.SpentPaths = len(e.SpentByPath)
	e.SpentByPath = e.SpentByPath[:min(e.SpentPaths, topPaths)]
}

// topPaths is how many paths an explanation tells.
const topPaths = 5
