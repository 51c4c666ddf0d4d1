package application

import (
	"context"
	"hash/maphash"
	"maps"
	"math"
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
	// Policies are those in force. Of those that log a part of their hits the log need not
	// say so itself: only servers do that.
	Policies []domain.Policy
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
	for _, policy := range r.options.Policies {
		if policy.Audit.Coverage() != "" {
			r.partial[policy.Name] = []partialSpan{{to: time.Unix(math.MaxInt32, 0)}}
		}
	}
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
