package application

import (
	"context"
	"hash/maphash"
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
	// Policies are those in force. Where the log tells nothing of a policy, because only
	// servers say what they put in force, this is what it is taken to have logged.
	Policies []domain.Policy
	// Quotas are held against the log too. Nil: they are not.
	Quotas domain.Quotas
}

// Expected is what must be so besides. The zero value expects nothing.
type Expected struct {
	// Chained says that it is a fault if calls are not chained.
	Chained bool
	// Noted are hashes of an earlier [Verification.Heads]. It is a fault if no call has
	// them any more.
	Noted map[string]string
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
	// Heads are, of a chained log, the hashes of the last call of each chain, by its name:
	// the policy, or "" for what administrators and servers did. Whoever notes them elsewhere can
	// tell later that nothing before was changed, see [Expected].
	Heads map[string]string
	// Faults are what does not fit, at most [MaxFaults] of them; FaultCount counts all.
	Faults     []Fault
	FaultCount int64
}

// MaxFaults is how many faults are told one by one.
const MaxFaults = 1000

// Fault is something in the store that does not fit.
type Fault struct {
	// Table is the one that does not fit, and ID that of the call, or 0.
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
func (v *Verifier) Verify(ctx context.Context, expected Expected, progress func(calls, through, newest int64)) (Verification, error) {
	r := &verification{
		Verifier: v, expected: expected, seed: maphash.MakeSeed(), windows: map[uint64]*auditedWindow{}, resets: map[uint64]int64{}, chains: map[string]*chain{},
		schedules: map[string]domain.Schedule{}, parts: map[string][]partialSpan{}, quotas: map[uint64]quotaSaid{}, progress: progress,
	}
	for _, step := range []func(context.Context) error{r.prepare, r.read, r.checkDerived, r.compare, r.finish} {
		if err := step(ctx); err != nil {
			return Verification{}, err
		}
	}
	return r.found, nil
}

// verifyPage is how many calls are read at a time, and verifyWindows how many windows
// are remembered before those are forgotten that are over.
const (
	verifyPage    = 5000
	verifyWindows = 1 << 20
)

// verification is one run of a verifier.
type verification struct {
	*Verifier
	expected Expected
	found    Verification
	progress func(calls, through, newest int64)

	seed      maphash.Seed
	windows   map[uint64]*auditedWindow // by the hash of what identifies a window
	resets    map[uint64]int64          // by the hash of policy and key: the ID of the last reset
	quotas    map[uint64]quotaSaid      // likewise: what the log says of the key's quota
	chains    map[string]*chain
	schedules map[string]domain.Schedule
	parts     map[string][]partialSpan // by policy: when the log had a part of the hits
	legacy    time.Time                // until then calls had no schedule
	over      int64                    // Unix seconds: windows that expired before are forgotten
	newestAt  int64                    // of a call, in Unix seconds
	forgetAt  int                      // how many windows there are when some are forgotten next
	newest    int64                    // ID of the newest call, for the progress
	pruned    prunes                   // when the log was begun to be read
	hashed    bool                     // some call has a hash
	missing   int64                    // IDs that are, up to the highest that was pruned then
	suspects  []suspect

	// open are the windows whose counters were read and do not fit yet: they may when
	// the log has been read up to that moment.
	open map[uint64]*openWindow
}

// prunes are what was pruned up to some moment.
type prunes struct {
	of      map[string]domain.PrunedCalls // by policy
	removed int64
	through int64 // the highest ID that was removed
}

// suspect is a fault, unless what does not fit there is calls that were pruned after the
// reading began: calls of that policy, "" being any, beyond an ID.
type suspect struct {
	Fault
	policy string
	beyond int64
	ids    int64 // how many IDs are missing there
	// sums says that it is about counts, which may lack what the log had in part: a policy
	// may have begun that after the reading began.
	sums bool
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

// quotaSaid is what the log says of a quota.
type quotaSaid struct {
	call    int64 // ID of the last call about it
	limit   int64
	removed bool
	held    bool // the store has a row
}

func (r *verification) fault(f Fault) {
	if r.found.FaultCount++; len(r.found.Faults) < MaxFaults {
		r.found.Faults = append(r.found.Faults, f)
	}
}

// suspect is a fault that may be none, see there.
func (r *verification) suspect(s suspect) {
	if len(r.suspects) == 10*MaxFaults {
		r.found.FaultCount++
		return
	}
	r.suspects = append(r.suspects, s)
}

func (r *verification) prepare(ctx context.Context) (err error) {
	if r.pruned, err = r.readPrunes(ctx); err != nil {
		return err
	}
	heads, err := r.heads(ctx)
	if err != nil {
		return err
	}
	r.found.Chained = len(heads) > 0
	if r.expected.Chained && !r.found.Chained {
		r.fault(Fault{Table: "api_call_chains", Detail: "calls are not chained"})
	}
	_, r.found.Gapless = r.log.(domain.Gapless)
	return r.findParts(ctx)
}

func (r *verification) readPrunes(ctx context.Context) (p prunes, err error) {
	pruner, ok := r.log.(domain.CallPruner)
	if !ok {
		return p, nil
	}
	all, err := pruner.PrunedCalls(ctx)
	p.of = make(map[string]domain.PrunedCalls, len(all))
	for _, pruned := range all {
		p.of[pruned.Policy] = pruned
		p.removed += pruned.Removed
		p.through = max(p.through, pruned.Through)
	}
	return p, err
}

// farAway is after every call.
var farAway = time.Unix(1<<40, 0)

// findParts finds out when the log had a part of a policy's hits. Servers change
// policies at about the same time, and calls of hits that are under way come later.
func (r *verification) findParts(ctx context.Context) error {
	const about = time.Minute
	since, said := map[string]time.Time{}, map[string]bool{}
	query := domain.CallQuery{Kinds: aboutRules, OldestFirst: true, Limit: MaxPage}
	for {
		page, err := r.log.Calls(ctx, query)
		if err != nil {
			return err
		}
		for i := range page {
			call := &page[i]
			said[call.Policy] = true
			from, part := since[call.Policy]
			switch {
			case call.Coverage != "" && !part:
				since[call.Policy] = call.At.Add(-about)
			case call.Coverage == "" && part:
				r.parts[call.Policy] = append(r.parts[call.Policy], partialSpan{from, call.At.Add(about)})
				delete(since, call.Policy)
			}
			query.After = call.ID
		}
		if len(page) < query.Limit {
			break
		}
	}
	for policy, from := range since {
		r.parts[policy] = append(r.parts[policy], partialSpan{from, farAway})
	}
	for _, policy := range r.options.Policies {
		if policy.Audit.Coverage() != "" && !said[policy.Name] {
			r.parts[policy.Name] = []partialSpan{{to: farAway}}
		}
	}
	return nil
}
