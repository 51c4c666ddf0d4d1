package application

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// read reads the log from where it was read to, to its end.
func (r *verification) read(ctx context.Context) error {
	for {
		page, err := r.log.Calls(ctx, domain.CallQuery{After: r.found.Through, OldestFirst: true, Limit: verifyPage})
		if err != nil {
			return err
		}
		for i := range page {
			r.call(&page[i])
		}
		if r.progress != nil {
			if r.newest <= r.found.Through {
				newest, err := r.log.Calls(ctx, domain.CallQuery{Limit: 1})
				if err != nil {
					return err
				}
				for i := range newest {
					r.newest = newest[i].ID
				}
			}
			r.progress(r.found.Calls, r.found.Through, max(r.newest, r.found.Through))
		}
		if len(page) < verifyPage {
			return nil
		}
	}
}

func (r *verification) call(call *domain.Call) {
	if call.ID <= 0 {
		r.fault(callFault(call, "IDs begin at 1"))
	} else {
		r.checkID(call.ID)
		r.found.Through = call.ID
	}
	r.found.Calls++
	r.hashed = r.hashed || call.Hash != ""
	if r.found.Chained || r.hashed {
		r.checkHash(call)
	}
	switch {
	case call.Kind == domain.CallReset:
		r.resets[r.hash(call.Policy, call.Key)] = call.ID
		for id, open := range r.open { // a window that was forgotten has no counter, or a new one
			if open.window.Policy == call.Policy && open.window.Key == call.Key && (r.options.Apart || open.window.Tally.Count == 0) {
				delete(r.open, id)
			}
		}
	case call.Kind == domain.CallQuotaSet, call.Kind == domain.CallQuotaUnset:
		r.quotas[r.hash(call.Policy, call.Key)] = quotaSaid{call: call.ID, limit: call.Limit, removed: call.Kind == domain.CallQuotaUnset}
	case call.Kind.InWindow():
		r.checkCounts(call)
	}
}

// checkDerived checks what the log answers from besides its calls.
func (r *verification) checkDerived(ctx context.Context) error {
	if log, ok := r.log.(domain.Derived); ok {
		return log.CheckDerived(ctx, func(table, policy, detail string) { r.fault(Fault{Table: table, Policy: policy, Detail: detail}) })
	}
	return nil
}

// checkID looks for a gap before an ID.
func (r *verification) checkID(id int64) {
	first, last := r.found.Through+1, id-1
	if !r.found.Gapless || first > last {
		return
	}
	if first <= r.pruned.through {
		r.missing += min(last, r.pruned.through) - first + 1
		first = r.pruned.through + 1
	}
	if first <= last {
		r.suspect(suspect{Fault: Fault{Table: "api_calls", ID: first, Detail: gap(first, last)}, beyond: last - 1, ids: last - first + 1})
	}
}

func gap(first, last int64) string {
	if first == last {
		return fmt.Sprintf("call %d is missing", first)
	}
	return fmt.Sprintf("calls %d to %d are missing", first, last)
}

// checkCounts compares the counts of a call with those of the call before it in its window.
func (r *verification) checkCounts(call *domain.Call) {
	id := domain.WindowID{Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, Start: call.WindowStart.Unix()}
	if call.Schedule == "" {
		r.legacy = call.At
	}
	window, at := r.window(id), r.hashWindow(id)
	isNew := window == nil
	if isNew {
		window = &auditedWindow{uncovered: call.Schedule == "" || call.WindowStart.Before(r.legacy)}
		if _, lists := r.counter.(domain.WindowLister); !lists {
			window.id = &id
		}
		r.forget()
		r.windows[at] = window
		if schedule, ok := r.schedule(call.Schedule); ok {
			window.expires = schedule.Expiry(schedule.At(call.WindowStart)).Unix()
			window.uncovered = window.uncovered || window.expires < r.over
		}
	}
	r.newestAt = max(r.newestAt, call.At.Unix())
	if schedule, ok := r.schedule(call.Schedule); ok && !schedule.At(call.At).Start.Equal(call.WindowStart) {
		r.fault(callFault(call, fmt.Sprintf("the call was made at %s, which is not in its window", call.At.Format(time.RFC3339Nano))))
	}
	window.uncovered = window.uncovered || call.Coverage != ""
	units := call.Units()
	count, refused := units, int64(0)
	if !call.Allowed {
		refused = units
	}
	count, refused = domain.AddUnits(window.count, count), domain.AddUnits(window.refused, refused)
	if r.options.Apart {
		r.addApart(window, call, count, refused)
		return
	}
	switch {
	case call.Count == count && (call.Refused == refused || count == math.MaxInt64): // where it stops refused units are forgotten
	case call.Count >= count && call.Refused >= refused && (window.uncovered || r.isPartial(call) || isNew && call.WindowStart.Before(r.pruned.of[call.Policy].At)):
		window.uncovered = true
	default:
		before := window.last
		r.suspect(suspect{callFault(call, fmt.Sprintf("the window's count and refused are %d and %d after this call, which does not follow from %d and %d before it and %d units of this call", call.Count, call.Refused, window.count, window.refused, units)), call.Policy, before, 0, true})
	}
	window.count, window.refused, window.last = call.Count, call.Refused, call.ID
	if open, is := r.open[at]; is && open.window.Tally.Count == call.Count && open.window.Tally.Refused == call.Refused {
		delete(r.open, at)
	}
}

// addApart adds a call to the sums of its window, and to those of the calls that the
// counter had when it was read.
func (r *verification) addApart(window *auditedWindow, call *domain.Call, count, refused int64) {
	if call.Count < call.Units() || call.Refused > call.Count {
		r.fault(callFault(call, fmt.Sprintf("the window's count and refused are %d and %d after this call of %d units", call.Count, call.Refused, call.Units())))
	}
	window.uncovered = window.uncovered || r.isPartial(call) || window.count == 0 && call.WindowStart.Before(r.pruned.of[call.Policy].At)
	at := r.hashWindow(domain.WindowID{Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, Start: call.WindowStart.Unix()})
	if open := r.open[at]; open != nil && call.Count <= open.window.Tally.Count {
		open.count = domain.AddUnits(open.count, count-window.count)
		open.refused = domain.AddUnits(open.refused, refused-window.refused)
		if open.count == open.window.Tally.Count && open.refused == open.window.Tally.Refused {
			delete(r.open, at)
		}
	}
	window.count, window.refused, window.last = count, refused, call.ID
}

// forget lets go of windows that are over if there are very many: no more calls of
// theirs should come.
func (r *verification) forget() {
	if len(r.windows) < max(r.forgetAt, verifyWindows) {
		return
	}
	const late = 10 * 60 // seconds that a call may come after those that were made later
	r.over = r.newestAt - late
	maps.DeleteFunc(r.windows, func(_ uint64, w *auditedWindow) bool { return w.expires < r.over })
	r.forgetAt = 2 * len(r.windows)
}

// lookUp tells do of the calls with these IDs, each the sign of a fault. If they are very
// many the last are counted as such, and not looked up.
func (r *verification) lookUp(ctx context.Context, ids []int64, do func(*domain.Call)) error {
	slices.Sort(ids)
	if told := 10 * MaxFaults; len(ids) > told {
		r.found.FaultCount += int64(len(ids) - told)
		ids = ids[:told]
	}
	for _, id := range ids {
		found, err := r.log.Calls(ctx, domain.CallQuery{After: id - 1, Before: id + 1, Limit: 1})
		if err != nil {
			return err
		}
		for i := range found {
			do(&found[i])
		}
	}
	return nil
}

func callFault(call *domain.Call, detail string) Fault {
	return Fault{Table: "api_calls", ID: call.ID, Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, WindowStart: call.WindowStart, Detail: detail}
}

// window is what the log has of a window since its last reset.
func (r *verification) window(id domain.WindowID) *auditedWindow {
	window := r.windows[r.hashWindow(id)]
	if window == nil || window.last < r.resets[r.hash(id.Policy, id.Key)] {
		return nil
	}
	return window
}

// isPartial reports whether the log may lack hits of the call's window until the call.
func (r *verification) isPartial(call *domain.Call) bool {
	return r.inPart(call.Policy, call.WindowStart, call.At)
}

// inPart reports whether the log had a part of the policy's hits at some time between.
func (r *verification) inPart(policy string, from, to time.Time) bool {
	return slices.ContainsFunc(r.parts[policy], func(s partialSpan) bool { return s.to.After(from) && !s.from.After(to) })
}

func (r *verification) schedule(text string) (domain.Schedule, bool) {
	schedule, known := r.schedules[text]
	if !known {
		schedule, _ = domain.ParseSchedule(text) // the zero one if it is none
		r.schedules[text] = schedule
	}
	return schedule, schedule != domain.Schedule{}
}

func (r *verification) hashWindow(id domain.WindowID) uint64 { return maphash.Comparable(r.seed, id) }

func (r *verification) hash(policy, key string) uint64 {
	return maphash.Comparable(r.seed, [2]string{policy, key})
}
