package storetest_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// broken is a store that does one thing wrong, and the tests that must notice.
type broken struct {
	name   string
	caught []string // names of tests as they are printed, without the first
	faults faults
}

// others lets everybody else run who wants to.
func others() {
	for range 20 {
		runtime.Gosched()
	}
}

// aside lets others have the store in the middle of what h does.
func aside(h *handle) {
	h.mu.Unlock()
	h.own.Unlock()
	others()
	h.own.Lock()
	h.mu.Lock()
}

// asideOfOthers lets those have the store that use another handle.
func asideOfOthers(h *handle) {
	h.mu.Unlock()
	others()
	h.mu.Lock()
}

// key makes a store see other keys.
func key(f func(string) string) faults {
	return faults{slot: func(_ *memory, s *domain.Slot) { s.Key = f(s.Key) }}
}

// numbers makes a store keep other numbers.
func numbers(f func(int64) int64) faults {
	return faults{write: func(t domain.Tally) domain.Tally { return domain.Tally{Count: f(t.Count), Refused: f(t.Refused)} }}
}

// carry makes a store reckon otherwise what weighs in.
func carry(f func(used, num, den int64) int64) faults {
	return faults{slot: func(m *memory, s *domain.Slot) {
		before := s.ID()
		before.Start = s.Previous.Window.Start.Unix()
		if used := m.state.windows[before].tally.Used(); used > 0 && s.Previous.Num > 0 {
			// A share of carry/used weighs in exactly as carry.
			s.Previous.Num, s.Previous.Den = min(max(f(used, s.Previous.Num, s.Previous.Den), 0), used), used
			if s.Previous.Num == 0 {
				s.Previous.Num, s.Previous.Den = 0, 1
			}
		}
	}}
}

// query makes a store answer another question.
func query(f func(*domain.CallQuery)) faults { return faults{query: f} }

var brokenStores = []broken{
	// Concurrency.
	{"racy", []string{"Concurrency/exactly the limit is admitted", "Concurrency/exactly the limit is admitted through two handles",
		"Concurrency/slots in reversed orders are charged together", "Concurrency/batches beside each other are exact"}, faults{between: aside}},
	{"locks each handle by itself", []string{"Concurrency/exactly the limit is admitted through two handles"}, faults{between: asideOfOthers}},
	{"a handle that keeps what it read", []string{"Concurrency/what one handle took the other sees at once"}, cached()},
	{"charges slot by slot, each under a lock", []string{"Concurrency/slots in reversed orders are charged together"}, faults{decide: slotBySlot}},
	{"dirty units", []string{"Units/nobody sees what is taken back"}, faults{dirty: true}},

	// Deciding.
	{"off by one", []string{"Take/admits exactly the limit and shows the attempts beyond", "Take/a limit of 0 refuses and no limit allows"},
		faults{slot: func(_ *memory, s *domain.Slot) {
			if s.Limit != domain.Unlimited {
				s.Limit++
			}
		}}},
	{"refuses the last unit", []string{"Take/admits exactly the limit and shows the attempts beyond", "Model/any takes agree with a plain model", "Numbers/limits are exact to the unit at the largest"},
		faults{slot: func(_ *memory, s *domain.Slot) { s.Limit-- }}},
	{"charges refusals", []string{"Take/refused units are not charged", "Shadow/a slot that leaves the shadow starts from what was used"},
		faults{write: func(t domain.Tally) domain.Tally { return domain.Tally{Count: t.Count} }}},
	{"hides refused attempts", []string{"Take/admits exactly the limit and shows the attempts beyond"},
		faults{write: func(t domain.Tally) domain.Tally { return domain.Tally{Count: t.Used()} }}},
	{"charges half of a hit", []string{"Take/is all or nothing, whatever the order of the slots", "Concurrency/a slot with room is never charged for a refusal beside it"},
		faults{decide: half}},
	{"counts a refusal in the first slot only", []string{"Take/every slot that has no room counts the attempt"}, faults{decide: firstRefusal}},
	{"one counter for all slots of a hit", []string{"Take/is all or nothing, whatever the order of the slots"}, faults{decide: firstPolicy}},
	{"decides told refusals again", []string{"Take/a refusal decided before is only counted"}, faults{decide: untold}},
	{"remembers the first limit", []string{"Take/a changed limit keeps the counts"}, firstLimit()},
	{"ignores shadow", []string{"Shadow/a slot in shadow has no say and keeps its own truth", "Shadow/slots in shadow alone refuse nothing"},
		faults{slot: func(_ *memory, s *domain.Slot) { s.Shadow = false }}},
	{"charges shadows beside a refusal", []string{"Shadow/a slot in shadow with room is not charged for what others refuse"}, faults{decide: chargeShadows}},
	{"counts looks", []string{"Look/answers in order and changes nothing"}, faults{looked: func(m *memory, slots []domain.Slot, _ []domain.Tally) {
		for i := range slots {
			row := m.state.windows[slots[i].ID()]
			row.tally.Count++
			m.state.windows[slots[i].ID()] = row
		}
	}}},
	{"answers looks in its own order", []string{"Look/looks at many slots at once"}, faults{looked: func(_ *memory, slots []domain.Slot, tallies []domain.Tally) {
		slices.SortFunc(tallies, func(a, b domain.Tally) int { return int(b.Count - a.Count) })
	}}},

	// Windows.
	{"one window for ever", []string{"Windows/windows are independent"}, faults{slot: func(_ *memory, s *domain.Slot) { s.Window.Start = time.Unix(0, 0) }}},
	{"windows to the minute", []string{"Windows/windows one second apart are two"},
		faults{slot: func(_ *memory, s *domain.Slot) { s.Window.Start = s.Window.Start.Truncate(time.Minute) }}},
	{"ignores the time zone", []string{"Windows/a window is the same in every time zone"}, faults{slot: func(_ *memory, s *domain.Slot) {
		y, m, d := s.Window.Start.Date()
		s.Window.Start = time.Date(y, m, d, s.Window.Start.Hour(), s.Window.Start.Minute(), s.Window.Start.Second(), 0, time.UTC)
	}}},
	{"ignores the schedule", []string{"Windows/a changed schedule starts anew and the old one keeps its counts", "Carry/a window of the key under another schedule or policy is not the one before"},
		faults{slot: func(_ *memory, s *domain.Slot) { s.Schedule = "" }}},
	{"unsigned times", []string{"Windows/windows before 1970 are windows"}, faults{slot: func(_ *memory, s *domain.Slot) {
		if s.Window.Start.Unix() < 0 {
			s.Window.Start = time.Unix(-s.Window.Start.Unix(), 0)
		}
	}}},

	// Carry.
	{"carry rounded down", []string{"Carry/what was used before weighs in, rounded up", "Carry/is exact for the largest numbers"},
		carry(func(used, num, den int64) int64 { return int64(float64(used) * float64(num) / float64(den)) })},
	{"carry in floating point", []string{"Carry/is exact for the largest numbers"},
		carry(func(used, num, den int64) int64 {
			return int64(math.Ceil(float64(used) * (float64(num) / float64(den))))
		})},
	{"carry in 64 bits", []string{"Carry/is exact for the largest numbers"}, carry(func(used, num, den int64) int64 {
		up := int64(0)
		if used*num%den > 0 {
			up = 1
		}
		return used*num/den + up
	})},
	{"carries refused units", []string{"Carry/what was used before weighs in, rounded up"}, faults{read: func(w *domain.LedgerWindow) {
		if w.Expires.IsZero() {
			w.Tally.Refused = 0
		}
	}}},
	{"carries nothing", []string{"Carry/a share of zero carries nothing, of one everything", "Carry/a batch sees its own takes in the window before"},
		faults{slot: func(_ *memory, s *domain.Slot) { s.Previous = domain.Previous{} }}},
	{"carries everything", []string{"Carry/a share of zero carries nothing, of one everything"},
		faults{slot: func(_ *memory, s *domain.Slot) {
			if !s.Previous.Window.Start.IsZero() {
				s.Previous.Num, s.Previous.Den = 1, 1
			}
		}}},

	// Numbers.
	{"counts in 32 bits", []string{"Numbers/counts have 64 bits"}, numbers(func(n int64) int64 { return int64(int32(n)) })},
	{"counts in floating point", []string{"Numbers/counts have 64 bits"}, numbers(func(n int64) int64 { return int64(float64(n) * (1 - 1e-300)) })},
	{"wraps", []string{"Numbers/counts stop at the largest number and do not wrap"}, numbers(func(n int64) int64 {
		if n == math.MaxInt64 {
			return math.MinInt64
		}
		return n
	})},

	// Keys.
	{"folds case", []string{"Keys/case is kept"}, key(strings.ToLower)},
	{"folds the case of policies", []string{"Keys/case is kept"}, faults{slot: func(_ *memory, s *domain.Slot) { s.Policy = strings.ToLower(s.Policy) }}},
	{"trims blanks", []string{"Keys/blanks are kept"}, key(strings.TrimSpace)},
	{"pads keys", []string{"Keys/blanks are kept"}, key(func(k string) string { return strings.TrimRight(k, " ") })},
	{"composes letters", []string{"Keys/letters are not composed"}, key(func(k string) string { return strings.ReplaceAll(k, "e\u0301", "\u00e9") })},
	{"knows no emoji", []string{"Keys/emoji and rare planes are kept"}, key(func(k string) string {
		return strings.Map(func(r rune) rune {
			if r > 0xffff {
				return '?'
			}
			return r
		}, k)
	})},
	{"strips quotes", []string{"Keys/quotes and patterns are letters"}, key(func(k string) string { return strings.Trim(k, "'\"`\\") })},
	{"takes keys for paths", []string{"Keys/quotes and patterns are letters"}, key(func(k string) string { return strings.ReplaceAll(k, "//", "/") })},
	{"takes keys for numbers", []string{"Keys/keys are no numbers"}, key(func(k string) string {
		if n, err := strconv.ParseFloat(k, 64); err == nil {
			return strconv.FormatFloat(n, 'g', -1, 64)
		}
		return k
	})},
	{"cuts keys at a blank", []string{"Keys/a key may begin another"}, key(func(k string) string { k, _, _ = strings.Cut(k, " "); return k })},
	{"cuts keys to 255 bytes", []string{"Keys/the longest keys are whole"}, key(func(k string) string { return k[:min(len(k), 255)] })},
	{"cuts policies to 63 bytes", []string{"Keys/the longest keys are whole"}, faults{slot: func(_ *memory, s *domain.Slot) { s.Policy = s.Policy[:min(len(s.Policy), 63)] }}},
	{"joins policy and key with a colon", []string{"Keys/policy and key do not run into each other"}, faults{slot: func(_ *memory, s *domain.Slot) { s.Policy, s.Key = "", s.Policy+":"+s.Key }}},
	{"joins policy and key with nothing", []string{"Keys/policy and key do not run into each other"}, faults{slot: func(_ *memory, s *domain.Slot) { s.Policy, s.Key = "", s.Policy+s.Key }}},
	{"joins key and schedule", []string{"Keys/key and schedule do not run into each other"}, faults{slot: func(_ *memory, s *domain.Slot) {
		if s.Schedule != "" { // a reset has none
			s.Schedule, s.Key = s.Key+":"+s.Schedule, ""
		}
	}, reset: func(m *memory, policy, key string) {
		maps.DeleteFunc(m.state.windows, func(id domain.WindowID, _ row) bool {
			return id.Policy == policy && strings.HasPrefix(id.Schedule, key+":")
		})
	}}},

	// Batches.
	{"forgets the order within a batch", []string{"Batches/takes of one call are decided in order"}, faults{decide: backwards}},
	{"decides a batch on what was there before it", []string{"Batches/many takes of one window in one call", "Batches/takes of one call are decided in order"}, faults{decide: eachOnOld}},
	{"refuses the rest of a batch", []string{"Batches/a refused take leaves room for the next of the call"}, faults{decide: refuseTheRest}},
	{"writes a batch in part", []string{"Batches/many windows in one call"}, faults{decide: firstHundred}},
	{"fails on an empty batch", []string{"Batches/nothing to do is no error"}, faults{decide: failEmpty}},
	{"keeps the caller's slices", []string{"Batches/the slice of takes is the caller's again", "AuditLog/the slice of calls is the caller's again", "UnitOfWork/the slices of the work are its own again"},
		faults{keeps: true}},
	{"does not mind the context", []string{"Context/nothing is taken once the context has ended", "Context/looking and resetting end with the context",
		"AuditLog/ends with the context, and nothing is half appended", "UnitOfWork/a context that ends keeps all or nothing", "Sweep/ends with the context",
		"Quotas/a change ends with the context, and neither quota nor log is kept", "Totals/ends with the context",
		"Prune/ends with the context, and removes nothing", "WindowLister/ends with the context"}, faults{deaf: true}},
	{"stops halfway when the context ends", []string{"Context/a context that ends on the way leaves nothing half done"}, faults{decide: interrupted}},

	// Forgetting.
	{"resets by the beginning of keys", []string{"Reset/forgets all windows of the key under the policy and nothing else"}, faults{reset: func(m *memory, policy, key string) {
		maps.DeleteFunc(m.state.windows, func(id domain.WindowID, _ row) bool { return id.Policy == policy && strings.HasPrefix(id.Key, key) })
	}}},
	{"resets one window only", []string{"Reset/forgets all windows of the key under the policy and nothing else"}, faults{reset: func(m *memory, policy, key string) {
		for id := range m.state.windows {
			if id.Policy == policy && id.Key == key {
				delete(m.state.windows, id)
				break
			}
		}
	}}},
	{"resets nothing", []string{"Reset/is no error for what was never hit, and twice is as good as once", "Reset/forgets what a window that slides carries"},
		faults{reset: func(*memory, string, string) {}}},
	{"resets window by window", []string{"Reset/beside running hits it forgets all or nothing"}, faults{reset: func(m *memory, policy, key string) {
		for id := range maps.Clone(m.state.windows) {
			if id.Policy == policy && id.Key == key {
				delete(m.state.windows, id)
				asideOfOthers(&handle{memory: m})
			}
		}
	}}},
	{"sweeps live windows", []string{"Sweep/a live window is never removed"}, faults{sweep: func(now *time.Time, _ *int) { *now = now.Add(time.Second) }}},
	{"sweeps everything", []string{"Sweep/a live window is never removed", "Sweep/a sweep beside running hits takes nothing that lives"},
		faults{sweep: func(now *time.Time, _ *int) { *now = now.Add(1 << 62) }}},
	{"sweeps a moment late", []string{"Sweep/a live window is never removed"}, faults{sweep: func(now *time.Time, _ *int) { *now = now.Add(-1) }}},
	{"sweeps without a bound", []string{"Sweep/removes at most so many, and fewer only if none is left"}, faults{sweep: func(_ *time.Time, limit *int) { *limit = math.MaxInt }}},
	{"counts what it looked at as swept", []string{"Sweep/what was reset is not swept as well"}, faults{swept: func(n int) int { return max(n, 1) }}},
	{"renews expiry", []string{"Sweep/hits, looks and refusals do not renew a window"}, faults{expiry: func(old row, expires time.Time) time.Time {
		if !old.expires.IsZero() {
			return old.expires.Add(time.Minute)
		}
		return expires
	}}},

	// The log.
	{"loses half a second", []string{"AuditLog/returns what was appended"}, faults{call: func(c *domain.Call) { c.At = c.At.Truncate(time.Second) }}},
	{"loses the shadow", []string{"AuditLog/returns what was appended"}, faults{call: func(c *domain.Call) { c.Shadow = false }}},
	{"cuts paths", []string{"AuditLog/returns what was appended"}, faults{call: func(c *domain.Call) { c.Path = c.Path[:min(len(c.Path), 255)] }}},
	{"forgets the order of calls within a batch", []string{"AuditLog/keeps the order within a batch and between batches"}, faults{append: func(h *handle, calls []domain.Call) error {
		calls = slices.Clone(calls)
		slices.Reverse(calls)
		h.add(calls)
		return nil
	}}},
	{"orders calls by time", []string{"AuditLog/keeps the order within a batch and between batches"}, faults{page: func(_ *memory, q domain.CallQuery, all []domain.Call) []domain.Call {
		slices.SortStableFunc(all, func(a, b domain.Call) int {
			if q.OldestFirst {
				return a.At.Compare(b.At)
			}
			return b.At.Compare(a.At)
		})
		return all[:min(q.Limit, len(all))]
	}}},
	{"filters without regard to case", []string{"AuditLog/filters by policy, key and outcome, byte for byte"}, faults{matches: func(q domain.CallQuery, c domain.Call) bool {
		q.Key, c.Key = strings.ToLower(q.Key), strings.ToLower(c.Key)
		return match(q, c)
	}}},
	{"takes a reset for an allowed hit", []string{"AuditLog/filters by policy, key and outcome, byte for byte"}, faults{call: func(c *domain.Call) {
		if c.Kind == domain.CallReset {
			c.Kind = domain.CallHit
		}
	}}},
	{"loses the last call of a batch", []string{"AuditLog/returns what was appended", "Pages/who follows the log while rows arrive sees every call once"}, faults{append: func(h *handle, calls []domain.Call) error {
		h.add(calls[:max(len(calls)-1, min(len(calls), 1))])
		return nil
	}}},
	{"gives its own slice away", []string{"AuditLog/the slice of calls is the caller's again"}, faults{page: func(m *memory, q domain.CallQuery, all []domain.Call) []domain.Call {
		page := all[:min(q.Limit, len(all))]
		for i := range m.state.calls { // where the page is one piece of the log, give that
			if len(page) > 0 && i+len(page) <= len(m.state.calls) && slices.Equal(m.state.calls[i:i+len(page)], page) {
				return m.state.calls[i : i+len(page)]
			}
		}
		return page
	}}},
	{"fails to append nothing", []string{"AuditLog/nothing to append is no error"}, faults{append: func(h *handle, calls []domain.Call) error {
		if len(calls) == 0 {
			return errors.New("no rows to insert")
		}
		h.add(calls)
		return nil
	}}},
	{"paging repeats a row", []string{"Pages/pages lose and repeat nothing", "Pages/both bounds are exclusive"}, query(func(q *domain.CallQuery) { q.After = max(q.After-1, 0) })},
	{"paging back repeats a row", []string{"Pages/pages lose and repeat nothing", "Pages/both bounds are exclusive"}, query(func(q *domain.CallQuery) {
		if q.Before > 0 {
			q.Before++
		}
	})},
	{"paging loses a row", []string{"Pages/pages lose and repeat nothing"}, query(func(q *domain.CallQuery) {
		if q.After > 0 {
			q.After++
		}
	})},
	{"pages by offset", []string{"Pages/who reads back while rows arrive sees every older call once", "Filters/filtered pages lose and repeat nothing while rows arrive"}, byOffset()},
	{"cuts pages before it filters", []string{"Pages/a filter does not shorten pages"}, faults{matches: byKey, page: filterLast}},
	{"gives IDs before it commits", []string{"Pages/who follows the log while rows arrive sees every call once"}, faults{append: func(h *handle, calls []domain.Call) error {
		first := h.state.lastID
		h.state.lastID += int64(len(calls))
		for range 1 + len(calls)/2 { // a long batch takes longer
			aside(h)
		}
		for i, call := range calls {
			call.ID = first + int64(i) + 1
			at, _ := slices.BinarySearchFunc(h.state.calls, call, func(a, b domain.Call) int { return int(a.ID - b.ID) })
			h.state.calls = slices.Insert(h.state.calls, at, call)
		}
		return nil
	}}},
	{"appends call by call", []string{"Pages/who follows the log while rows arrive sees every call once"}, faults{append: func(h *handle, calls []domain.Call) error {
		for _, call := range calls {
			h.add([]domain.Call{call})
			aside(h)
		}
		return nil
	}}},

	// Units of work.
	{"takes nothing back", []string{"UnitOfWork/keeps nothing of work that fails, neither counter nor log", "UnitOfWork/keeps nothing of work that panics"}, faults{restore: func(*memory, state) {}}},
	{"loses the log on error", []string{"UnitOfWork/keeps nothing of work that fails, neither counter nor log", "UnitOfWork/what a failing log is told is not counted either"},
		faults{restore: func(m *memory, before state) { m.state.calls = before.calls }}},
	{"keeps the log on error", []string{"UnitOfWork/keeps nothing of work that fails, neither counter nor log"}, faults{restore: func(m *memory, before state) {
		calls, last := m.state.calls, m.state.lastID
		m.state = before
		m.state.calls, m.state.lastID = calls, last
	}}},
	{"takes back what is new only", []string{"UnitOfWork/keeps nothing of work that fails, neither counter nor log", "UnitOfWork/a reset is taken back with the work"}, faults{restore: func(m *memory, before state) {
		maps.DeleteFunc(m.state.windows, func(id domain.WindowID, _ row) bool { _, old := before.windows[id]; return !old })
		m.state.calls = before.calls
	}}},
	{"loses the calls of units", []string{"UnitOfWork/keeps counter and log of work that succeeds", "Units/units beside each other are exact, and the log adds up to the counter"},
		faults{append: func(h *handle, calls []domain.Call) error {
			if h.begun == nil {
				h.add(calls)
			}
			return nil
		}}},
	{"looks see nothing of their unit", []string{"UnitOfWork/sees what it did itself"}, faults{looked: func(m *memory, slots []domain.Slot, tallies []domain.Tally) {
		for i := range slots {
			if m.begun != nil {
				tallies[i] = m.begun.windows[slots[i].ID()].tally
			}
		}
	}}},

	// Quotas.
	{"does not log quotas", []string{"Quotas/a change is in the log"}, faults{quota: func(_ *memory, _ *domain.QuotaChange, call *domain.Call) bool { call.Kind = ""; return true }}},
	{"sets a quota once", []string{"Quotas/a quota is set, changed and removed"}, faults{quota: func(m *memory, c *domain.QuotaChange, _ *domain.Call) bool {
		old, is := m.state.quotas[[2]string{c.Policy, c.Key}]
		return !is || old.Removed || c.Removed
	}}},
	{"lists quotas without regard to case", []string{"Quotas/quotas are listed in the byte order of keys and paged"}, faults{list: func(_ *string, quotas []domain.Quota) {
		slices.SortFunc(quotas, func(a, b domain.Quota) int { return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)) })
	}}},
	{"folds quotas", []string{"Quotas/policies and keys are compared byte for byte"}, faults{quota: func(_ *memory, c *domain.QuotaChange, _ *domain.Call) bool {
		c.Key = strings.ToLower(c.Key)
		return true
	}}},
	{"forgets removals", []string{"Quotas/changes are told once each, the last one of a key, in order"}, faults{tells: func(_ *int64, c domain.QuotaChange) bool { return !c.Removed }}},
	{"tells changes again", []string{"Quotas/changes are told once each, the last one of a key, in order"}, faults{tells: func(after *int64, _ domain.QuotaChange) bool {
		*after = max(*after-1, 0)
		return true
	}}},
	{"numbers changes before it locks", []string{"Quotas/revisions of changes made at the same time differ, and followers miss none"}, faults{quota: func(m *memory, _ *domain.QuotaChange, _ *domain.Call) bool {
		asideOfOthers(&handle{memory: m})
		return true
	}}},
}

// Ways to take otherwise.

// half charges slot after slot, whatever becomes of the hit.
func half(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	return each(takes, func(t domain.Take) (taken domain.Taken) {
		taken.Allowed = true
		for _, s := range t.Slots {
			one := domain.Take{Slots: []domain.Slot{s}, Cost: t.Cost, Refused: t.Refused}
			got := h.take([]domain.Take{one})[0]
			taken.Allowed = taken.Allowed && got.Allowed
			taken.Tallies = append(taken.Tallies, got.Tallies[0])
		}
		return taken
	}), nil
}

// each decides take after take.
func each(takes []domain.Take, f func(domain.Take) domain.Taken) []domain.Taken {
	taken := make([]domain.Taken, len(takes))
	for i := range takes {
		taken[i] = f(takes[i])
	}
	return taken
}

// try is what a take would come to.
func try(h *handle, t domain.Take) domain.Taken {
	defer remember(h, t)()
	return h.take([]domain.Take{t})[0]
}

// remember returns what puts the windows of takes back to what they are now.
func remember(h *handle, takes ...domain.Take) func() {
	windows := map[domain.WindowID]row{}
	for _, t := range takes {
		for _, s := range h.seen(t.Slots) {
			if r, is := h.state.windows[s.ID()]; is {
				windows[s.ID()] = r
			}
		}
	}
	return func() {
		for _, t := range takes {
			for _, s := range h.seen(t.Slots) {
				delete(h.state.windows, s.ID())
			}
		}
		maps.Copy(h.state.windows, windows)
	}
}

// slotBySlot decides a hit on all of its slots, and then charges one after the other.
func slotBySlot(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	return each(takes, func(t domain.Take) domain.Taken {
		taken := try(h, t)
		for i, s := range t.Slots {
			if taken.Allowed || taken.Tallies[i].Refuses {
				taken.Tallies[i] = h.take([]domain.Take{{Slots: []domain.Slot{s}, Cost: t.Cost, Refused: taken.Tallies[i].Refuses}})[0].Tallies[0]
			}
			if len(t.Slots) > 1 {
				aside(h)
			}
		}
		return taken
	}), nil
}

func firstRefusal(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	return each(takes, func(t domain.Take) domain.Taken {
		taken := try(h, t)
		if taken.Allowed {
			return h.take([]domain.Take{t})[0]
		}
		for i, s := range t.Slots {
			if taken.Tallies[i].Refuses {
				h.take([]domain.Take{{Slots: []domain.Slot{s}, Cost: t.Cost, Refused: true}})
				break
			}
		}
		return taken
	}), nil
}

func firstPolicy(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	return each(takes, func(t domain.Take) domain.Taken {
		t.Slots = slices.Clone(t.Slots)
		for i := range t.Slots {
			t.Slots[i].Policy = t.Slots[0].Policy
		}
		return h.take([]domain.Take{t})[0]
	}), nil
}

func untold(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	takes = slices.Clone(takes)
	for i := range takes {
		takes[i].Refused = false
	}
	return h.take(takes), nil
}

func chargeShadows(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	return each(takes, func(t domain.Take) domain.Taken {
		taken := h.take([]domain.Take{t})[0]
		for i, s := range t.Slots {
			if !taken.Allowed && s.Shadow && !taken.Tallies[i].Refuses {
				taken.Tallies[i] = h.take([]domain.Take{{Slots: []domain.Slot{s}, Cost: t.Cost}})[0].Tallies[0]
			}
		}
		return taken
	}), nil
}

func backwards(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	takes = slices.Clone(takes)
	slices.Reverse(takes)
	taken := h.take(takes)
	slices.Reverse(taken)
	return taken, nil
}

func eachOnOld(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	last := map[domain.WindowID]row{}
	taken := each(takes, func(t domain.Take) domain.Taken {
		defer remember(h, t)()
		taken := h.take([]domain.Take{t})[0]
		for _, s := range t.Slots {
			if r, is := h.state.windows[s.ID()]; is {
				last[s.ID()] = r
			}
		}
		return taken
	})
	maps.Copy(h.state.windows, last)
	return taken, nil
}

func refuseTheRest(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	refused := false
	return each(takes, func(t domain.Take) domain.Taken {
		t.Refused = t.Refused || refused
		taken := h.take([]domain.Take{t})[0]
		refused = !taken.Allowed
		return taken
	}), nil
}

func firstHundred(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	back := remember(h, takes...)
	taken := h.take(takes)
	back()
	h.take(takes[:min(len(takes), 100)])
	return taken, nil
}

func failEmpty(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	if len(takes) == 0 {
		return nil, errors.New("no rows to insert")
	}
	return h.take(takes), nil
}

// interrupted writes take after take and gives up in between.
func interrupted(ctx context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
	var taken []domain.Taken
	for i := range takes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		taken = append(taken, h.take(takes[i:i+1])...)
		aside(h)
	}
	return taken, nil
}

func firstLimit() faults {
	limits := map[domain.WindowID]int64{}
	return faults{slot: func(_ *memory, s *domain.Slot) {
		if first, known := limits[s.ID()]; known {
			s.Limit = first
		} else {
			limits[s.ID()] = s.Limit
		}
	}}
}

// cached is a store whose handles believe what they wrote last.
func cached() faults {
	cache := map[*handle]map[domain.WindowID]row{}
	return faults{decide: func(_ context.Context, h *handle, takes []domain.Take) ([]domain.Taken, error) {
		if cache[h] == nil {
			cache[h] = map[domain.WindowID]row{}
		}
		for _, t := range takes {
			for _, s := range t.Slots {
				if r, known := cache[h][s.ID()]; known {
					h.state.windows[s.ID()] = r
				}
			}
		}
		taken := h.take(takes)
		for _, t := range takes {
			for _, s := range t.Slots {
				cache[h][s.ID()] = h.state.windows[s.ID()]
			}
		}
		return taken, nil
	}}
}

// Ways to page otherwise.

// byOffset skips as many of the newest calls as were returned before.
func byOffset() faults {
	offsets := map[string]int{}
	return faults{
		query: func(q *domain.CallQuery) {
			if !q.OldestFirst {
				q.Before = 0
			}
		},
		page: func(_ *memory, q domain.CallQuery, all []domain.Call) []domain.Call {
			if q.Before == 0 {
				offsets[q.Key] = 0
			}
			if !q.OldestFirst {
				all = all[min(offsets[q.Key], len(all)):]
			}
			page := all[:min(q.Limit, len(all))]
			offsets[q.Key] += len(page)
			return page
		},
	}
}

// byKey looks at keys and bounds only, filterLast at the rest of the page.
func byKey(q domain.CallQuery, c domain.Call) bool {
	return match(domain.CallQuery{Key: q.Key, After: q.After, Before: q.Before}, c)
}

func filterLast(_ *memory, q domain.CallQuery, all []domain.Call) []domain.Call {
	return slices.DeleteFunc(all[:min(q.Limit, len(all))], func(c domain.Call) bool { return !match(q, c) })
}
