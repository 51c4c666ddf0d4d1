package application

import (
	"context"
	"fmt"
	"time"
)

// sweepBatch is how many windows one sweep removes at most: some milliseconds of
// the writer's time, and few enough sweeps.
const sweepBatch = 500

// Prune removes the windows that are neither current nor previous by their own
// length, in short batches with pauses as long as the batch took, so that hits
// are never held up for long. It returns how many it removed, also when it was
// cut short by an error or the context; progress, if not nil, is told the sum
// after each batch.
func (l *Limiter) Prune(ctx context.Context, progress func(removed int)) (removed int, err error) {
	now := l.now()
	l.refusals.forgetEnded(now)
	if l.sweeper == nil {
		return 0, nil
	}
	for {
		begun := time.Now()
		n, err := l.sweeper.Sweep(ctx, now, sweepBatch)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("prune after %d windows: %w", removed, err)
		}
		if progress != nil {
			progress(removed)
		}
		if n < sweepBatch {
			return removed, nil
		}
		select {
		case <-ctx.Done():
			return removed, ctx.Err()
		case <-time.After(time.Since(begun)):
		}
	}
}

// PruneEvery prunes at once and then whenever the interval has passed, until the
// context ends. A prune that fails is reported and tried again at the next turn.
func (l *Limiter) PruneEvery(ctx context.Context, interval time.Duration, report func(removed int, err error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		removed, err := l.Prune(ctx, nil)
		if ctx.Err() != nil {
			return
		}
		report(removed, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
