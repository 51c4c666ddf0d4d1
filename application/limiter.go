package application

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Limiter decides hits. It is safe for concurrent use; any number of limiters,
// in this process and in others, may share a store and stay exact together.
type Limiter struct {
	rules      *Rules
	keys       domain.KeyHasher
	quotas     *quotas
	counter    domain.Counter
	sweeper    domain.Sweeper
	callPruner domain.CallPruner
	committer  *committer
	refusals   *refusals
	units      domain.UnitOfWork
	rulesLog   sync.Mutex // held by who logs rules
	observer   Observer
	now        func() time.Time
	timeout    time.Duration
}

// Stores are the ports that a limiter stands on, often one adapter for all.
type Stores struct {
	Units   domain.UnitOfWork
	Counter domain.Counter    // only to look; what changes goes through Units
	Sweeper domain.Sweeper    // nil if the store forgets by itself
	Quotas  domain.Quotas     // nil if no key has a limit of its own
	Calls   domain.CallPruner // nil if the log keeps everything, or forgets by itself
}

// Options tune a limiter. The zero value is good.
type Options struct {
	// Now is the clock, read once per hit. Default time.Now.
	Now func() time.Time
	// Timeout is how long a hit may wait for its decision. Default 5s.
	Timeout time.Duration
	// Queue is how many hits may wait; further ones are [domain.ErrOverloaded]. Default 8192.
	Queue int
	// Batch is how many hits one commit holds at most, besides refusals that were
	// answered before. Default 128.
	Batch int
	// FullWindows is how many used-up windows are remembered in memory, so that
	// refusals are answered without the store. Default 32768.
	FullWindows int
	// Keys makes of keys what is kept and shown of them, see [Limiter.KeptAs]. Default:
	// they stay as they are.
	Keys domain.KeyHasher
	// Observer is told what the limiter does. Default: nobody is.
	Observer Observer
	// Outage is told when the store is down, and when it is back. Default: none is told.
	Outage func(Outage)
	// Report receives errors that no caller is there to receive: refusals that were
	// answered could not be counted, or a commit failed after all its hits had given
	// up. Default: none is told.
	Report func(error)

	random func() float64 // draws samples of the log; rand.Float64 if it is nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Queue <= 0 {
		o.Queue = 8192
	}
	if o.Batch <= 0 {
		o.Batch = 128
	}
	if o.FullWindows <= 0 {
		o.FullWindows = 32768
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Outage == nil {
		o.Outage = func(Outage) {}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	return o
}

// NewLimiter starts a limiter. The returned function stops it: hits that wait are
// decided, refusals that were answered are counted, later hits are
// [domain.ErrUnavailable]. Stop whatever calls the limiter first, close the
// store after.
//
// Hits are [domain.ErrUnavailable] until the store has told its quotas, which it
// is asked for before NewLimiter returns, and again and again if it does not answer.
func NewLimiter(rules *Rules, stores Stores, options Options) (*Limiter, func()) {
	options = options.withDefaults()
	committer := newCommitter(stores.Units, options)
	l := &Limiter{
		rules:      rules,
		keys:       options.Keys,
		quotas:     newQuotas(stores.Quotas, options),
		counter:    stores.Counter,
		sweeper:    stores.Sweeper,
		callPruner: stores.Calls,
		committer:  committer,
		refusals:   committer.refusals,
		units:      stores.Units,
		observer:   options.Observer,
		now:        options.Now,
		timeout:    options.Timeout,
	}
	if stores.Quotas == nil {
		return l, committer.close
	}
	ctx, stop := context.WithCancel(context.Background())
	l.quotas.read(ctx) // a failure is reported, and tried again
	var watching sync.WaitGroup
	watching.Go(func() { l.quotas.watch(ctx) })
	return l, func() {
		stop()
		watching.Wait()
		committer.close()
	}
}

// Hit decides a hit. Both outcomes are a decision; [domain.Decision.Err] turns a
// refusal into an error. A non-nil error means that there is no decision:
//
//   - *[domain.InvalidError], *[domain.NotFoundError]: the hit makes no sense; nothing was counted
//   - [domain.ErrOverloaded]: too many hits wait; not counted
//   - [domain.ErrUnavailable]: no answer from the store in time; maybe counted
//   - the context's error, if it ended first; maybe counted
//
// In place of the second and the third there is a decision, allowed and unchecked,
// if all policies of the hit fail open or are in shadow. While the store is down,
// both come at once.
//
// A cost above the limit can never pass and is an *InvalidError, but a limit of 0
// refuses every hit, and a policy in shadow none.
func (l *Limiter) Hit(ctx context.Context, hit domain.Hit) (domain.Decision, error) {
	hit.Key = l.keys.Hash(hit.Key)
	return l.hit(ctx, l.rules.inForce.Load(), hit)
}

// hit decides a hit whose key is what is kept of it.
func (l *Limiter) hit(ctx context.Context, rules *ruleSet, hit domain.Hit) (domain.Decision, error) {
	at := l.now()
	var few [2]domain.Slot // on the stack: a refusal from memory needs them no longer
	slots, d, err := l.plan(few[:0], rules, &hit, at)
	if err != nil {
		return domain.Decision{}, err
	}
	if hit.Cost == 0 {
		return l.look(ctx, d, slices.Clone(slots))
	}
	begun := time.Now()
	if d, err = l.decide(ctx, rules, d, &hit, slots); err != nil {
		l.observer.Undecided(hit.Policies, time.Since(begun))
		return d, err
	}
	l.observer.Decided(d, time.Since(begun))
	return d, nil
}

// decide completes the decision of a hit that is planned.
func (l *Limiter) decide(ctx context.Context, rules *ruleSet, d domain.Decision, hit *domain.Hit, slots []domain.Slot) (domain.Decision, error) {
	if err := l.quotas.check(); err != nil {
		return l.undecided(rules, d, hit, err)
	}
	if l.refusals.answer(slots, hit, d.At, rules.logging, d.Policies) {
		return d, nil
	}
	taken, err := l.committer.take(ctx, *hit, slices.Clone(slots), d.At, rules.logging)
	if err != nil {
		return l.undecided(rules, d, hit, err)
	}
	conclude(&d, taken)
	return d, nil
}

// look answers a hit that costs nothing. It sees every hit that was answered before.
func (l *Limiter) look(ctx context.Context, d domain.Decision, slots []domain.Slot) (domain.Decision, error) {
	if err := l.quotas.check(); err != nil {
		return domain.Decision{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, errLate)
	defer cancel()
	if err := l.committer.sync(ctx); err != nil {
		return domain.Decision{}, err
	}
	tallies, err := l.counter.Look(ctx, slots)
	if err != nil {
		tellFailed(ctx, l.observer, opLook)
		return domain.Decision{}, fmt.Errorf("look at %d counters: %w: %w", len(slots), domain.ErrUnavailable, err)
	}
	conclude(&d, domain.Taken{Allowed: true, Tallies: tallies})
	return d, nil
}

// errLate is why a look ends that takes too long.
var errLate = fmt.Errorf("no answer in time: %w", domain.ErrUnavailable)

// Now reads the limiter's clock.
func (l *Limiter) Now() time.Time { return l.now() }

// Policies are the policies in force, sorted by name.
func (l *Limiter) Policies() []domain.Policy { return l.rules.Policies() }

// KeptAs is what is kept of key and shown in its place, in decisions too: key itself,
// or with [Options].Keys its hash. Only hits need the key itself; whatever else is
// asked or done about a key may name it either way.
func (l *Limiter) KeptAs(key string) string { return l.keys.Lookup(key) }

// InForce are the policies in force, sorted by name, and the revision of the rules
// that they are from, see [Rules.Revision].
func (l *Limiter) InForce() (revision string, policies []domain.Policy) {
	set := l.rules.inForce.Load()
	return set.revision, slices.Clone(set.Policies)
}

// Ping reports why hits cannot be decided, or nil: it waits in the queue and runs an
// empty unit of work.
func (l *Limiter) Ping(ctx context.Context) error { return l.committer.ping(ctx) }

// Sync waits until every refusal that was answered before is counted, and given to
// the log with its count.
func (l *Limiter) Sync(ctx context.Context) error { return l.committer.sync(ctx) }

// Counters looks at the counters of key under the policies, or under all that are
// in force if none is named. It is a hit of cost 0, but for how it may name the key,
// see KeptAs.
func (l *Limiter) Counters(ctx context.Context, key string, policies ...string) (domain.Decision, error) {
	rules := l.rules.inForce.Load()
	return l.hit(ctx, rules, domain.Hit{Key: l.KeptAs(key), Policies: rules.named(policies)})
}

// Reset forgets the windows of key under each of the policies and writes that to
// the log. hit names key and policies; its cost takes no part. Resetting what was
// never hit is no error. Limiters of other processes may go on refusing from
// memory for up to a second.
func (l *Limiter) Reset(ctx context.Context, hit domain.Hit) error {
	return l.reset(ctx, l.rules.inForce.Load(), hit)
}

// ResetAll is Reset under all policies in force.
func (l *Limiter) ResetAll(ctx context.Context, key string, origin domain.Origin) error {
	rules := l.rules.inForce.Load()
	return l.reset(ctx, rules, domain.Hit{Key: key, Policies: rules.named(nil), Origin: origin})
}

func (l *Limiter) reset(ctx context.Context, rules *ruleSet, hit domain.Hit) error {
	if err := l.quotas.check(); err != nil {
		return err
	}
	at := l.now()
	hit.Key, hit.Cost = l.KeptAs(hit.Key), 0
	slots, _, err := l.plan(nil, rules, &hit, at)
	if err != nil {
		return err
	}
	return l.committer.reset(ctx, hit, slots, at)
}

// plan appends where the hit is to be counted, one slot per policy in their order,
// and makes the decision: a refusal until something is known of the slots.
func (l *Limiter) plan(slots []domain.Slot, rules *ruleSet, hit *domain.Hit, at time.Time) ([]domain.Slot, domain.Decision, error) {
	if err := hit.Check(); err != nil {
		return nil, domain.Decision{}, err
	}
	d := domain.Decision{Key: hit.Key, Cost: hit.Cost, At: at, Policies: make([]domain.PolicyDecision, len(hit.Policies))}
	for i, name := range hit.Policies {
		policy, err := rules.policy(name)
		if err != nil {
			return nil, domain.Decision{}, err
		}
		limit := l.quotas.limit(&policy, hit.Key)
		if hit.Cost > limit && limit > 0 && !policy.Shadow {
			return nil, domain.Decision{}, &domain.InvalidError{Field: "cost", Reason: fmt.Sprintf("of %d can never pass, policy %s allows %d per window", hit.Cost, name, limit)}
		}
		window := policy.Schedule.At(at)
		p := &d.Policies[i]
		p.Policy, p.Limit, p.Shadow, p.Schedule, p.Window = policy.Name, limit, policy.Shadow, policy.Schedule, window
		slots = append(slots, domain.Slot{
			Policy: policy.Name, Key: hit.Key, Schedule: policy.Schedule.String(), Window: window, Limit: limit, Shadow: policy.Shadow,
			Previous: policy.Schedule.Previous(window, at), Expires: policy.Schedule.Expiry(window),
		})
	}
	return slots, d, nil
}

func conclude(d *domain.Decision, taken domain.Taken) {
	d.Allowed = taken.Allowed
	for i := range taken.Tallies {
		d.Policies[i].Tally = taken.Tallies[i]
	}
}
