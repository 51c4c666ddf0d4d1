package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Take implements [domain.Counter]. All slots of a take must have one key.
//
// The takes of one key are recorded together or not at all. On a single server that
// holds for the whole call, unless somebody else wrote into the hashes what is no
// window. On a cluster an error can leave the takes of some keys recorded and those
// of others not.
//
// If the connection breaks or the time is up after the takes were sent, they may be
// recorded although an error is returned: nobody can tell. Nothing that may have been
// recorded is sent again, so no take is recorded twice.
func (s *Store) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	plan, err := s.plan(takes)
	if err != nil {
		return nil, err
	}
	if err = s.run(ctx, plan.calls); err != nil {
		return nil, fmt.Errorf("take for %d keys in Redis: %w", len(plan.calls), err)
	}
	taken, err := plan.settle(takes)
	if err != nil {
		return nil, fmt.Errorf("take for %d keys in Redis: %w", len(plan.calls), err)
	}
	return taken, nil
}

// Look implements [domain.Counter]. What it returns of one policy and key was true
// at one moment; on a single server, all of it.
func (s *Store) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	ledger := domain.NewLookLedger(slots)
	if err := s.fill(ctx, ledger); err != nil {
		return nil, fmt.Errorf("look at %d windows in Redis: %w", len(ledger.Windows), err)
	}
	return ledger.Look(slots), nil
}

// fill reads the tallies of the ledger's windows.
func (s *Store) fill(ctx context.Context, ledger *domain.Ledger) error {
	type read struct {
		windows []int // in the ledger
		fields  []string
		cmd     *redis.SliceCmd
	}
	reads := map[string]*read{} // by name of the hash
	for i := range ledger.Windows {
		w := &ledger.Windows[i]
		name := s.hash(w.Policy, w.Key)
		if reads[name] == nil {
			reads[name] = &read{}
		}
		reads[name].windows = append(reads[name].windows, i)
		reads[name].fields = append(reads[name].fields, field(w.Schedule, w.Start))
	}
	pipe := s.pipeline(len(reads))
	for name, r := range reads {
		r.cmd = pipe.HMGet(ctx, name, r.fields...)
	}
	if err := await(ctx, func() error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return err
	}
	for _, r := range reads {
		for i, value := range r.cmd.Val() {
			text, held := value.(string)
			if !held {
				continue
			}
			words := strings.Split(text, " ")
			if len(words) != 3 {
				return fmt.Errorf("a field %q is no window", r.fields[i])
			}
			var err error
			if ledger.Windows[r.windows[i]].Tally, err = tally(words[0], words[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Reset implements [domain.Counter].
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	pipe := s.pipeline(1)
	pipe.Del(ctx, s.hash(policy, key))
	if err := await(ctx, func() error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return fmt.Errorf("reset in Redis: %w", err)
	}
	return nil
}
