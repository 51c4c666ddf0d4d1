package application

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// sweepBatch is how many windows or calls are removed at a time: some milliseconds of
// the writer's time, and few enough batches.
const sweepBatch = 500

// Pruned is how much a prune removed.
type Pruned struct{ Windows, Calls int }

// Prune removes the windows that are neither current nor previous by their own
// length, and the calls that the policies in force do not keep, in short batches with
// pauses as long as the batch took, so that hits are never held up for long. It returns
// how many it removed, also when it was cut short by an error or the context;
// progress, if not nil, is told the sum after each batch.
func (l *Limiter) Prune(ctx context.Context, progress func(Pruned)) (pruned Pruned, err error) {
	now := l.now()
	l.refusals.forgetEnded(now)
	if l.sweeper != nil {
		err = inBatches(ctx, func() (bool, error) {
			n, err := l.sweeper.Sweep(ctx, now, sweepBatch)
			pruned.Windows += n
			l.observer.Pruned(n, 0)
			tell(progress, pruned, err)
			return n == sweepBatch, err
		})
	}
	if err != nil {
		tellFailed(ctx, l.observer, opPrune)
		return pruned, fmt.Errorf("prune after %d windows: %w", pruned.Windows, err)
	}
	for _, policy := range l.rules.inForce.Load().Policies {
		before := pruned.Calls
		pruned.Calls, err = l.pruneCalls(ctx, policy.Name, policy.Audit, func(n int) { tell(progress, Pruned{pruned.Windows, before + n}, nil) })
		if pruned.Calls += before; err != nil {
			return pruned, err
		}
	}
	return pruned, nil
}

// PruneCalls removes the calls of a policy, in force or not, that audit does not keep.
// Else it is as Prune.
func (l *Limiter) PruneCalls(ctx context.Context, policy string, audit domain.Audit, progress func(Pruned)) (Pruned, error) {
	if err := domain.CheckPolicyName(policy); err != nil {
		return Pruned{}, err
	}
	removed, err := l.pruneCalls(ctx, policy, audit, func(n int) { tell(progress, Pruned{Calls: n}, nil) })
	return Pruned{Calls: removed}, err
}

func (l *Limiter) pruneCalls(ctx context.Context, policy string, audit domain.Audit, progress func(int)) (removed int, err error) {
	if l.callPruner == nil || audit.Keep == 0 && audit.MaxRows == 0 {
		return 0, nil
	}
	prune := domain.Prune{Policy: policy, At: l.now(), Most: audit.MaxRows, Limit: sweepBatch}
	if audit.Keep > 0 {
		prune.Before = prune.At.Add(-audit.Keep)
	}
	err = inBatches(ctx, func() (bool, error) {
		n, more, err := l.callPruner.PruneCalls(ctx, prune)
		l.observer.Pruned(0, n)
		if removed += n; err == nil {
			progress(removed)
		}
		return more, err
	})
	if err != nil {
		tellFailed(ctx, l.observer, opPrune)
		return removed, fmt.Errorf("prune the log of policy %s after %d calls: %w", policy, removed, err)
	}
	return removed, nil
}

// LeftOver names those policies beside these, sorted, whose calls were pruned and of which some
// are left: nobody removes these, since what is to be kept of them is said nowhere.
func (h *History) LeftOver(ctx context.Context, inForce []domain.Policy) (names []string, err error) {
	log, ok := h.log.(domain.CallPruner)
	if !ok {
		return nil, nil
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	pruned, err := log.PrunedCalls(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what was pruned: %w: %w", domain.ErrUnavailable, err)
	}
	for _, p := range pruned {
		if slices.ContainsFunc(inForce, func(policy domain.Policy) bool { return policy.Name == p.Policy }) {
			continue
		}
		left, err := h.read(ctx, domain.CallQuery{Policy: p.Policy, Kinds: []domain.CallKind{domain.CallHit, domain.CallUnchecked}, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(left) > 0 {
			names = append(names, p.Policy)
		}
	}
	slices.Sort(names)
	return names, nil
}

func tell(progress func(Pruned), pruned Pruned, err error) {
	if progress != nil && err == nil {
		progress(pruned)
	}
}

// inBatches runs batch until there is nothing more, with pauses as long as each took.
func inBatches(ctx context.Context, batch func() (more bool, err error)) error {
	for {
		begun := time.Now()
		more, err := batch()
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Since(begun)):
		}
	}
}

// PruneEvery prunes at once and then whenever the interval has passed, until the
// context ends. A prune that fails is reported and tried again at the next turn.
func (l *Limiter) PruneEvery(ctx context.Context, interval time.Duration, report func(Pruned, error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		pruned, err := l.Prune(ctx, nil)
		if ctx.Err() != nil {
			return
		}
		report(pruned, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
