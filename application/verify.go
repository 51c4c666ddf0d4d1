package application

import (
	"context"
	"maps"

	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Verifier holds the audit log against the counters. Both may change while it does.
type Verifier struct {
	log     domain.AuditLog
	counter domain.Counter
	options VerifierOptions
}

// VerifierOptions tune a verifier. The zero value is good.
type VerifierOptions struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Apart says that counter and log share no transaction, see [domain.Apart]. Then calls
	// of several processes are not in the order in which they were counted: only the sums
	// of windows are compared, and those of windows that were reset are not.
	Apart bool
}

// NewVerifier makes a verifier of a log and the counter that it is about.
func NewVerifier(log domain.AuditLog, counter domain.Counter, options VerifierOptions) *Verifier {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Verifier{log: log, counter: counter, options: options}
}

// Verification is what a verifier found.
type Verification struct {
	// Calls is how many calls were read, the last of them with the ID Through.
	Calls, Through int64
	// Windows is how many windows were compared with the sums over their calls,
	// Uncovered how many of these cannot be because the log does not have all their hits:
	// their policy logs a part, their first calls were pruned, or they are older than the
	// log's column of schedules. If the log is apart, those that were reset are among them.
	Windows, Uncovered int64
	// Pruned is how many calls were removed because they were old.
	Pruned int64
	// Gapless says that IDs were checked for gaps, Chained that calls were for their hashes.
	Gapless, Chained bool
	// Heads are, of a chained log, the hashes of the last call of each policy. Whoever
	// notes them elsewhere can tell later that nothing before was changed.
	Heads map[string]string
	// Faults are what does not fit, at most [MaxFaults] of them; FaultCount counts all.
	Faults     []Fault
	FaultCount int64
}

// MaxFaults is how many faults are told one by one.
const MaxFaults = 1000

// Fault is something in the store that does not fit.
type Fault struct {
	// Table is api_calls or rate_limit_windows, and ID that of the call, or 0.
	Table string
	ID    int64
	// Policy, Key, Schedule and WindowStart are what the fault is about, as far as is known.
	Policy, Key, Schedule string
	WindowStart           time.Time
	Detail                string
}

// settleTime is how long a log that is behind its counters gets to catch up.
const settleTime = 5 * time.Second

// Verify reads the whole log and compares: each call with the one before it in its
// window, the sums of each window with its counter, IDs and hashes where the log has a
// promise to keep. progress, if not nil, is told after each page how many calls were
// read and the ID of the newest. It remembers all windows of the log, some 150 bytes each,
// or if they are more than a million those that are not over. An
// error means that there is no result; what does not fit is no error.
func (v *Verifier) Verify(ctx context.Context, progress func(calls, through, newest int64)) (Verification, error) {
	for tries := 1; ; tries++ {
		found, moved, err := v.verify(ctx, progress)
		if err != nil || found.FaultCount == 0 || !moved || tries == verifyTries {
			return found, err
		}
	}
}

// verifyPage is how many calls are read at a time, and verifyWindows how many windows
// are remembered before those are forgotten that are over.
const (
	verifyPage    = 5000
	verifyWindows = 1 << 20
)

// verifyTries is how often the log is read if it is pruned meanwhile.
const verifyTries = 3

// verify also reports whether calls were pruned meanwhile, which may look like faults.
func (v *Verifier) verify(ctx context.Context, progress func(calls, through, newest int64)) (found Verification, moved bool, err error) {
	r := &verification{
		Verifier: v, seed: maphash.MakeSeed(), windows: map[uint64]*auditedWindow{}, resets: map[uint64]int64{},
		schedules: map[string]domain.Schedule{}, partial: map[string][]partialSpan{}, progress: progress,
	}
	for _, step := range []func(context.Context) error{r.prepare, r.read, r.compare, r.finish} {
		if err := step(ctx); err != nil {
			return Verification{}, false, err
		}
	}
	pruned, err := r.readPruned(ctx)
	return r.found, !maps.Equal(pruned, r.pruned), err
}

// readPruned is what was pruned, by policy.
func (r *verification) readPruned(ctx context.Context) (map[string]domain.PrunedCalls, error) {
	of := map[string]domain.PrunedCalls{}
	pruner, ok := r.log.(domain.CallPruner)
	if !ok {
		return of, nil
	}
	pruned, err := pruner.PrunedCalls(ctx)
	for _, p := range pruned {
		of[p.Policy] = p
	}
	return of, err
}

// verification is one run of a verifier.
type verification struct {
	*Verifier
	found    Verification
	progress func(calls, through, newest int64)

	seed      maphash.Seed
	windows   map[uint64]*auditedWindow // by the hash of what identifies a window
	resets    map[uint64]int64          // by the hash of policy and key: the ID of the last reset
	schedules map[string]domain.Schedule
	partial   map[string][]partialSpan // by policy: when the log had a part of the hits
	legacy    time.Time                // until then calls had no schedule
	over      int64                    // Unix seconds: windows that expired before are forgotten
	newestAt  int64                    // of a call, in Unix seconds
	forgetAt  int                      // how many windows there are when some are forgotten next
	pruned    map[string]domain.PrunedCalls
	through   int64 // the highest ID that was pruned
	missing   int64 // IDs up to there that are missing
	newest    int64
	chain     map[string]*chainEnd

	// open are the windows whose counters were read and do not fit yet: they may when
	// the log has been read up to that moment.
	open map[uint64]*openWindow
}

// auditedWindow is what the log has of a window.
type auditedWindow struct {
	count, refused int64 // after the last call, or for a log apart the sums
	last           int64 // its ID
	expires        int64 // Unix seconds
	uncovered      bool  // the log does not have all hits
	held           bool  // the store has a counter
	id             *domain.WindowID
}

// partialSpan is a time in which the log had a part of a policy's hits.
type partialSpan struct{ from, to time.Time }

type openWindow struct {
	window domain.LedgerWindow // as it was counted
	// count and refused are, for a log apart, the sums over the calls that were counted
	// by then: those whose own count is not beyond.
	count, refused int64
}

type chainEnd struct {
	hash    string
	started bool
	last    int64 // ID of the last call of the policy
	reached bool  // the head that the store tells was seen
}

func (r *verification) fault(f Fault) {
	if r.found.FaultCount++; len(r.found.Faults) < MaxFaults {
		r.found.Faults = append(r.found.Faults, f)
	}
}

func (r *verification) prepare(ctx context.Context) (err error) {
	if r.pruned, err = r.readPruned(ctx); err != nil {
		return err
	}
	for _, p := range r.pruned {
		r.found.Pruned += p.Removed
		r.through = max(r.through, p.Through)
	}
	heads, err := r.heads(ctx)
	if err != nil {
		return err
	}
	r.chain, r.found.Chained = map[string]*chainEnd{}, len(heads) > 0
	_, r.found.Gapless = r.log.(domain.Gapless)
	return r.findParts(ctx)
}

// findParts finds out when the log had a part of a policy's hits. Servers change
// policies at about the same time, and calls of hits that are under way come later.
func (r *verification) findParts(ctx context.Context) error {
	const about = time.Minute
	since := map[string]time.Time{}
	query := domain.CallQuery{Kinds: []domain.CallKind{domain.CallPolicySet, domain.CallPolicyRemoved}, OldestFirst: true, Limit: MaxPage}
	for {
		page, err := r.log.Calls(ctx, query)
		if err != nil {
			return err
		}
		for i := range page {
			call := &page[i]
			from, part := since[call.Policy]
			switch {
			case call.Coverage != "" && !part:
				since[call.Policy] = call.At.Add(-about)
			case call.Coverage == "" && part:
				r.partial[call.Policy] = append(r.partial[call.Policy], partialSpan{from, call.At.Add(about)})
				delete(since, call.Policy)
			}
			query.After = call.ID
		}
		if len(page) < query.Limit {
			break
		}
	}
	for policy, from := range since {
		r.partial[policy] = append(r.partial[policy], partialSpan{from, time.Unix(math.MaxInt32, 0)})
	}
	return nil
}

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
	r.checkID(call)
	r.found.Calls, r.found.Through = r.found.Calls+1, call.ID
	if r.found.Chained {
		r.checkHash(call)
	}
	switch {
	case call.Kind == domain.CallReset:
		r.resets[r.hash(call.Policy, call.Key)] = call.ID
		for id, open := range r.open { // a window that was forgotten has no counter, or a new one
			if open.window.Policy == call.Policy && open.window.Key == call.Key && open.window.Tally.Count == 0 {
				delete(r.open, id)
			}
		}
	case call.Kind.InWindow():
		r.checkCounts(call)
	}
}

func (r *verification) checkID(call *domain.Call) {
	first, last := r.found.Through+1, call.ID-1
	if !r.found.Gapless || first > last {
		return
	}
	if first <= r.through {
		r.missing += min(last, r.through) - first + 1
		first = r.through + 1
	}
	if first <= last {
		r.fault(Fault{Table: "api_calls", ID: first, Detail: gap(first, last)})
	}
}

func gap(first, last int64) string {
	if first == last {
		return fmt.Sprintf("call %d is missing", first)
	}
	return fmt.Sprintf("calls %d to %d are missing", first, last)
}

// heads are the hashes of the last calls of policies, none if calls are not chained.
func (r *verification) heads(ctx context.Context) (map[string]string, error) {
	if chained, ok := r.log.(domain.Chained); ok {
		return chained.ChainHeads(ctx)
	}
	return nil, nil
}

// checkHash compares the call's hash with that of the call before it of its policy.
func (r *verification) checkHash(call *domain.Call) {
	end := r.chain[call.Policy]
	if end == nil {
		end = &chainEnd{hash: domain.ChainStart(call.Policy)}
		r.chain[call.Policy] = end
	}
	pruned := r.pruned[call.Policy]
	if pruned.Through > end.last && pruned.Through < call.ID && pruned.Hash != "" { // the call before it is gone
		end.hash, end.started = pruned.Hash, true
	}
	end.last = call.ID
	switch {
	case call.Hash == "" && end.started:
		r.fault(callFault(call, "the call has no hash, though those before it have"))
	case call.Hash == "":
	case call.ID <= pruned.Through: // what is before it may be gone
		end.hash, end.started = call.Hash, true
	case call.Chain(end.hash) != call.Hash:
		r.fault(callFault(call, "the hash of the call does not fit to it and to the call before it of this policy: one of them was changed, or a call between them removed or added"))
		fallthrough
	default:
		end.hash, end.started = call.Hash, true
	}
	if r.found.Heads[call.Policy] == end.hash {
		end.reached = true
	}
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
	count, refused = saturatedSum(window.count, count), saturatedSum(window.refused, refused)
	if r.options.Apart {
		r.addApart(window, call, count, refused)
		return
	}
	switch {
	case call.Count == count && call.Refused == refused, call.Count == math.MaxInt64: // where it stops
	case call.Count >= count && call.Refused >= refused && (window.uncovered || r.isPartial(call) || isNew && call.WindowStart.Before(r.pruned[call.Policy].At)):
		window.uncovered = true
	default:
		r.fault(callFault(call, fmt.Sprintf("the window's count and refused are %d and %d after this call, which does not follow from %d and %d before it and %d units of this call", call.Count, call.Refused, window.count, window.refused, units)))
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
	window.uncovered = window.uncovered || r.isPartial(call) || window.count == 0 && call.WindowStart.Before(r.pruned[call.Policy].At)
	at := r.hashWindow(domain.WindowID{Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, Start: call.WindowStart.Unix()})
	if open := r.open[at]; open != nil && call.Count <= open.window.Tally.Count {
		open.count = saturatedSum(open.count, count-window.count)
		open.refused = saturatedSum(open.refused, refused-window.refused)
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

func callFault(call *domain.Call, detail string) Fault {
	return Fault{Table: "api_calls", ID: call.ID, Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, WindowStart: call.WindowStart, Detail: detail}
}

func saturatedSum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// window is what the log has of a window since its last reset.
func (r *verification) window(id domain.WindowID) *auditedWindow {
	window := r.windows[r.hashWindow(id)]
	if window == nil || window.last < r.resets[r.hash(id.Policy, id.Key)] {
		return nil
	}
	return window
}

func (r *verification) isPartial(call *domain.Call) bool {
	return slices.ContainsFunc(r.partial[call.Policy], func(s partialSpan) bool {
		return s.to.After(call.WindowStart) && !s.from.After(call.At)
	})
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

// compare compares the windows of the log with the counters. A counter that was read
// when the log had been read up to some call fits if it is what the log has after that
// call, or after one of those that came until the log was read again.
func (r *verification) compare(ctx context.Context) error {
	r.open = map[uint64]*openWindow{}
	lister, lists := r.counter.(domain.WindowLister)
	var err error
	if lists {
		err = r.compareHeld(ctx, lister)
	} else {
		err = r.compareLooked(ctx)
	}
	if err != nil {
		return err
	}
	if r.found.Heads, err = r.heads(ctx); err != nil {
		return err
	}
	for policy, end := range r.chain {
		end.reached = end.hash == r.found.Heads[policy]
	}
	for deadline := time.Now().Add(settleTime); ; {
		if err := r.read(ctx); err != nil {
			return err
		}
		if len(r.open) == 0 || lists || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compareHeld goes through the windows that the store holds, and then through those that
// it should hold.
func (r *verification) compareHeld(ctx context.Context, lister domain.WindowLister) error {
	var after domain.LedgerWindow
	for {
		page, err := lister.Windows(ctx, after, MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i]
			r.compareOne(&page[i])
			if window := r.window(page[i].ID()); window != nil {
				window.held = true
			}
		}
		if len(page) < MaxPage {
			break
		}
	}
	now := r.options.Now().Unix()
	var lost []int64
	for _, window := range r.windows {
		if !window.held && window.count > 0 && window.expires > now {
			lost = append(lost, window.last)
		}
	}
	slices.Sort(lost)
	for _, id := range lost {
		found, err := r.log.Calls(ctx, domain.CallQuery{After: id - 1, Before: id + 1, Limit: 1})
		if err != nil {
			return err
		}
		for i := range found {
			call := &found[i]
			window := domain.LedgerWindow{Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, Start: call.WindowStart}
			if r.window(window.ID()) != nil { // it was not reset
				r.compareOne(&window)
			}
		}
	}
	return nil
}

// compareLooked looks at the windows that are in the log and have not expired.
func (r *verification) compareLooked(ctx context.Context) error {
	now := r.options.Now().Unix()
	var slots []domain.Slot
	look := func() error {
		tallies, err := r.counter.Look(ctx, slots)
		if err != nil {
			return err
		}
		for i, s := range slots {
			r.compareOne(&domain.LedgerWindow{Policy: s.Policy, Key: s.Key, Schedule: s.Schedule, Start: s.Window.Start, Tally: tallies[i]})
		}
		slots = slots[:0]
		return nil
	}
	for _, window := range r.windows {
		if window.expires <= now || r.window(*window.id) != window {
			continue
		}
		schedule, _ := r.schedule(window.id.Schedule)
		slots = append(slots, domain.Slot{
			Policy: window.id.Policy, Key: window.id.Key, Schedule: window.id.Schedule,
			Window: schedule.At(time.Unix(window.id.Start, 0)), Expires: time.Unix(window.expires, 0).UTC(),
		})
		if len(slots) == MaxPage {
			if err := look(); err != nil {
				return err
			}
		}
	}
	return look()
}

func (r *verification) compareOne(held *domain.LedgerWindow) {
	window := r.window(held.ID())
	if window == nil {
		window = &auditedWindow{uncovered: r.mayLack(held)}
	}
	r.found.Windows++
	if r.options.Apart && r.resets[r.hash(held.Policy, held.Key)] > 0 {
		r.found.Uncovered++
		return
	}
	switch {
	case window.uncovered:
		r.found.Uncovered++
		if held.Tally.Count >= window.count && held.Tally.Refused >= window.refused {
			return
		}
	case held.Tally.Count == window.count && held.Tally.Refused == window.refused:
		return
	}
	r.open[r.hashWindow(held.ID())] = &openWindow{*held, window.count, window.refused}
}

// mayLack reports whether it is right that the log has no call of a window.
func (r *verification) mayLack(held *domain.LedgerWindow) bool {
	return held.Start.Before(r.legacy) || held.Expires.Unix() < r.over || held.Start.Before(r.pruned[held.Policy].At) ||
		slices.ContainsFunc(r.partial[held.Policy], func(s partialSpan) bool { return s.to.After(held.Start) })
}

// finish makes faults of what still does not fit.
func (r *verification) finish(ctx context.Context) error {
	if err := r.checkEnds(ctx); err != nil {
		return err
	}
	open := make([]*openWindow, 0, len(r.open))
	for _, o := range r.open {
		open = append(open, o)
	}
	slices.SortFunc(open, func(a, b *openWindow) int { return a.window.ID().Compare(b.window.ID()) })
	for _, o := range open {
		w := &o.window
		detail := fmt.Sprintf("count is %d and refused %d, and the log has no call of the window", w.Tally.Count, w.Tally.Refused)
		var id int64
		if window := r.window(w.ID()); window != nil {
			id = window.last
			detail = fmt.Sprintf("count is %d and refused %d, and by the log, after call %d, they are %d and %d", w.Tally.Count, w.Tally.Refused, window.last, window.count, window.refused)
		}
		r.fault(Fault{Table: "rate_limit_windows", ID: id, Policy: w.Policy, Key: w.Key, Schedule: w.Schedule, WindowStart: w.Start, Detail: detail})
	}
	return nil
}

// checkEnds looks for calls that are missing at the end of the log, and among those
// that may have been pruned.
func (r *verification) checkEnds(ctx context.Context) error {
	if gapless, ok := r.log.(domain.Gapless); ok {
		last, err := gapless.LastID(ctx)
		if err != nil {
			return err
		}
		if err := r.read(ctx); err != nil { // calls that came meanwhile
			return err
		}
		if r.found.Through < last {
			r.fault(Fault{Table: "api_calls", ID: r.found.Through + 1, Detail: gap(r.found.Through+1, last)})
		}
		if r.missing != r.found.Pruned {
			r.fault(Fault{Table: "api_calls", Detail: fmt.Sprintf("of the calls up to %d, %d are missing, and %d were pruned", r.through, r.missing, r.found.Pruned)})
		}
	}
	delete(r.found.Heads, "") // which only says that there are chains
	for policy, head := range r.found.Heads {
		if end := r.chain[policy]; end != nil && !end.reached || end == nil && head != domain.ChainStart(policy) && r.pruned[policy].Hash != head {
			r.fault(Fault{Table: "api_calls", Policy: policy, Detail: "the last calls of the policy are missing: its chain goes on after the last one that is there"})
		}
	}
	return nil
}
