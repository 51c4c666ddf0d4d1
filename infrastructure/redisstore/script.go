package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog/domain"
)

//go:embed take.lua
var takeLua string

// takeSHA is the name under which a server keeps the script.
var takeSHA = redis.NewScript(takeLua).Hash()

// call is one invocation of the script: the takes of one client key.
type call struct {
	hashes  []any // names of the hashes, one for each policy
	windows []any // three arguments for each window
	takes   []any

	ledger []int // where each window is in the ledger
	cmd    *once
}

// once is a command that is not sent again when it may have been executed. A
// cluster's client still follows a slot that has moved, and tries a connection that
// could not be had again: both times nothing was executed.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// plan sorts takes by client key.
type plan struct {
	ledger *domain.Ledger
	calls  []*call // in the order in which their keys occur
	after  []domain.Tally
}

func (s *Store) plan(takes []domain.Take) (*plan, error) {
	for i := range takes {
		if err := check(&takes[i]); err != nil {
			return nil, err
		}
	}
	p := &plan{ledger: domain.NewLedger(takes)}
	p.after = make([]domain.Tally, len(p.ledger.Windows))
	calls := make(map[string]*call, len(takes))
	hashes := make(map[[2]string]int, len(takes))                   // by policy and key: the number in the call
	windows := make(map[domain.WindowID]int, len(p.ledger.Windows)) // likewise
	for i := range p.ledger.Windows {
		w := &p.ledger.Windows[i]
		c := calls[w.Key]
		if c == nil {
			c = &call{}
			calls[w.Key] = c
			p.calls = append(p.calls, c)
		}
		pair := [2]string{w.Policy, w.Key}
		if hashes[pair] == 0 {
			c.hashes = append(c.hashes, s.hash(w.Policy, w.Key))
			hashes[pair] = len(c.hashes)
		}
		c.ledger = append(c.ledger, i)
		c.windows = append(c.windows, hashes[pair], field(w.Schedule, w.Start), life(w))
		windows[w.ID()] = len(c.ledger)
	}
	for i := range takes {
		take := &takes[i]
		if len(take.Slots) == 0 {
			continue // there is nothing that it could change
		}
		c := calls[take.Slots[0].Key]
		c.takes = append(c.takes, take.Cost, take.Refused, len(take.Slots))
		for j := range take.Slots {
			slot := &take.Slots[j]
			id := slot.ID()
			own, before := windows[id], 0
			if slot.Previous.Num > 0 {
				id.Start = slot.Previous.Window.Start.Unix()
				before = windows[id]
			}
			c.takes = append(c.takes, own, limit(slot.Limit), slot.Shadow, before,
				min(slot.Previous.Num, slot.Previous.Den), slot.Previous.Den)
		}
	}
	return p, nil
}

// check refuses what the script could not count.
func check(take *domain.Take) error {
	if take.Cost < 1 {
		return &domain.InvalidError{Field: "cost", Reason: fmt.Sprintf("is %d, it must be at least 1", take.Cost)}
	}
	for i := range take.Slots {
		if take.Slots[i].Key != take.Slots[0].Key {
			return &domain.InvalidError{Field: "key", Reason: "must be the same in all slots of a take"}
		}
	}
	return nil
}

// limit is how the script is told a limit.
func limit(units int64) any {
	if units == domain.Unlimited {
		return ""
	}
	return max(units, 0) // no cost fits a limit of 0, nor one below
}

// life is how long a window lives from when it is first written, in milliseconds:
// as long as if it were written the moment it begins. So it is never forgotten too
// early, whatever the server's clock shows.
func life(w *domain.LedgerWindow) int64 {
	d := w.Expires.Sub(w.Start)
	return max(int64((d+time.Millisecond-1)/time.Millisecond), 1)
}

// run runs the script for every call. The scripts of calls that a server does not
// know it is sent: a server that says so has executed nothing.
func (s *Store) run(ctx context.Context, calls []*call) error {
	err := s.send(ctx, calls, "evalsha", takeSHA)
	if err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	var unknown []*call
	for _, c := range calls {
		switch err := c.cmd.Err(); {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, c)
		case err != nil:
			return err
		}
	}
	if len(unknown) == 0 {
		return err
	}
	return s.send(ctx, unknown, "eval", takeLua)
}

// send runs calls in one pipeline and returns the first error.
func (s *Store) send(ctx context.Context, calls []*call, command, script string) error {
	pipe := s.pipeline(len(calls))
	for _, c := range calls {
		args := make([]any, 0, 4+len(c.hashes)+len(c.windows)+len(c.takes))
		args = append(args, command, script, len(c.hashes))
		args = append(args, c.hashes...)
		args = append(args, len(c.ledger))
		args = append(args, c.windows...)
		args = append(args, c.takes...)
		c.cmd = &once{redis.NewCmd(ctx, args...)}
		if err := pipe.Process(ctx, c.cmd); err != nil {
			return err
		}
	}
	return await(ctx, func() error {
		_, err := pipe.Exec(ctx)
		if redis.HasErrorPrefix(err, "EXECABORT") { // says nothing; why is in what was not queued
			for _, c := range calls {
				if !redis.HasErrorPrefix(c.cmd.Err(), "EXECABORT") {
					return c.cmd.Err()
				}
			}
		}
		return err
	})
}

// settle decides the takes again, from what the windows held before, and holds
// the outcome against what the script made of them.
func (p *plan) settle(takes []domain.Take) ([]domain.Taken, error) {
	for _, c := range p.calls {
		answer, err := c.cmd.StringSlice()
		if err != nil {
			return nil, err
		}
		if len(answer) != 4*len(c.ledger) {
			return nil, fmt.Errorf("the script answered %d numbers for %d windows", len(answer), len(c.ledger))
		}
		for i, at := range c.ledger {
			if p.ledger.Windows[at].Tally, err = tally(answer[4*i], answer[4*i+1]); err != nil {
				return nil, err
			}
			if p.after[at], err = tally(answer[4*i+2], answer[4*i+3]); err != nil {
				return nil, err
			}
		}
	}
	taken := p.ledger.Settle(takes)
	for i := range p.ledger.Windows {
		if w := &p.ledger.Windows[i]; w.Tally != p.after[i] {
			return nil, fmt.Errorf("the script left %+v in window %s of policy %q where %+v was due",
				p.after[i], field(w.Schedule, w.Start), w.Policy, w.Tally)
		}
	}
	return taken, nil
}

// tally is what a window with so many units used and refused holds.
func tally(used, refused string) (domain.Tally, error) {
	u, errUsed := strconv.ParseInt(used, 10, 64)
	r, errRefused := strconv.ParseInt(refused, 10, 64)
	if err := errors.Join(errUsed, errRefused); err != nil {
		return domain.Tally{}, err
	}
	if u < 0 || r < 0 || u > math.MaxInt64-r {
		return domain.Tally{}, fmt.Errorf("%d units used and %d refused are no tally", u, r)
	}
	return domain.Tally{Count: u + r, Refused: r}, nil
}
