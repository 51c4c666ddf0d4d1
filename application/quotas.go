package application

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	// quotaPoll is how often changes that other processes made are looked for. They
	// are in force everywhere within a second.
	quotaPoll = 400 * time.Millisecond
	// quotaPage is how many changes are read at a time.
	quotaPage = 1000
)

// quotas are the limits that keys have of their own. All of them are in memory,
// some hundred bytes each, because every hit asks for them; the store has them to keep.
type quotas struct {
	store    domain.Quotas // nil: there are none
	timeout  time.Duration // of a reading
	report   func(error)
	observer Observer

	known atomic.Bool  // all that the store had at first are in memory
	size  atomic.Int64 // of own, to be read without the lock
	mu    sync.RWMutex
	own   map[quotaID]int64

	reading  sync.Mutex // guards what follows, and the order in which changes are taken over
	revision int64      // of the last change taken over
	failed   bool       // the last reading did
}

type quotaID struct{ policy, key string }

func newQuotas(store domain.Quotas, options Options) *quotas {
	q := &quotas{store: store, timeout: options.Timeout, report: options.Report, observer: options.Observer, own: map[quotaID]int64{}}
	q.known.Store(store == nil)
	return q
}

// watch reads the changes, until the context ends.
func (q *quotas) watch(ctx context.Context) {
	ticker := time.NewTicker(quotaPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		q.read(ctx)
	}
}

// read takes over what changed in the store. A failure is reported once, until it
// is over; what is known stays in force.
func (q *quotas) read(ctx context.Context) error {
	q.reading.Lock()
	defer q.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	for {
		changes, err := q.store.QuotaChanges(ctx, q.revision, quotaPage)
		if err != nil {
			tellFailed(ctx, q.observer, opQuotas)
			err = fmt.Errorf("read the changes of quotas: %w: %w", domain.ErrUnavailable, err)
			if !q.failed && !errors.Is(ctx.Err(), context.Canceled) {
				q.failed = true
				q.report(err)
			}
			return err
		}
		q.failed = false
		q.takeOver(changes)
		if len(changes) < quotaPage {
			q.known.Store(true)
			return nil
		}
	}
}

func (q *quotas) takeOver(changes []domain.QuotaChange) {
	if len(changes) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, change := range changes {
		id := quotaID{change.Policy, change.Key}
		if change.Removed {
			delete(q.own, id)
		} else {
			q.own[id] = change.Limit
		}
	}
	q.revision = changes[len(changes)-1].Revision
	q.size.Store(int64(len(q.own)))
}

// limit is the limit of key under the policy: its own, or else the policy's.
func (q *quotas) limit(policy *domain.Policy, key string) int64 {
	if q.size.Load() == 0 {
		return policy.Limit
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if own, ok := q.own[quotaID{policy.Name, key}]; ok {
		return own
	}
	return policy.Limit
}

// SetQuota gives a key a limit of its own under a policy, in force at once here
// and within a second in other processes on the store. It is written to the audit
// log, of which origin is a part. A quota that makes no sense is an
// *[domain.InvalidError], one of an unknown policy a *[domain.NotFoundError].
func (l *Limiter) SetQuota(ctx context.Context, quota domain.Quota, origin domain.Origin) error {
	return l.changeQuota(ctx, domain.QuotaChange{Quota: quota}, origin)
}

// UnsetQuota lets the policy's limit apply to a key again. Unsetting what is not
// set is no error. Else it is as SetQuota.
func (l *Limiter) UnsetQuota(ctx context.Context, policy, key string, origin domain.Origin) error {
	return l.changeQuota(ctx, domain.QuotaChange{Quota: domain.Quota{Policy: policy, Key: key}, Removed: true}, origin)
}

func (l *Limiter) changeQuota(ctx context.Context, change domain.QuotaChange, origin domain.Origin) error {
	change.Key = l.KeptAs(change.Key)
	if err := change.Check(); err != nil {
		return err
	}
	if err := l.checkQuotaQuery(change.Policy); err != nil && !(change.Removed && errors.Is(err, domain.ErrNotFound)) {
		return err // a quota can be taken away also where its policy is gone
	}
	if l.quotas.store == nil {
		return errNoQuotas
	}
	call := domain.Call{Kind: domain.CallQuotaSet, At: l.now(), Policy: change.Policy, Key: change.Key, Allowed: true, Limit: change.Limit, Origin: origin}
	if change.Removed {
		call.Kind = domain.CallQuotaUnset
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.quotas.store.ChangeQuota(ctx, change, call); err != nil {
		l.observer.StoreFailed(opQuotas)
		return fmt.Errorf("change the quota: %w: %w", domain.ErrUnavailable, err)
	}
	l.observer.Logged(1)
	return l.quotas.read(ctx)
}

// Quota is a key's own limit under a policy. If it has none that is a
// *[domain.NotFoundError], of the kind "quota".
func (l *Limiter) Quota(policy, key string) (domain.Quota, error) {
	if err := l.checkQuotaQuery(policy); err != nil {
		return domain.Quota{}, err
	}
	key = l.KeptAs(key)
	if err := domain.CheckKey(key); err != nil {
		return domain.Quota{}, err
	}
	limit, ok := l.quotas.of(policy, key)
	if !ok {
		return domain.Quota{}, &domain.NotFoundError{Kind: "quota", Name: key}
	}
	return domain.Quota{Policy: policy, Key: key, Limit: limit}, nil
}

// of is a key's own limit under a policy, also if that is not in force here.
func (q *quotas) of(policy, key string) (limit int64, ok bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	limit, ok = q.own[quotaID{policy, key}]
	return limit, ok
}

// Quotas returns one page of a policy's quotas, 1 to [MaxPage], in the byte order
// of their keys. To read on, ask again with after set to the last key.
func (l *Limiter) Quotas(ctx context.Context, policy, after string, limit int) ([]domain.Quota, error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	if err := l.checkQuotaQuery(policy); err != nil {
		return nil, err
	}
	if l.quotas.store == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	page, err := l.quotas.store.Quotas(ctx, policy, after, limit)
	if err != nil {
		l.observer.StoreFailed(opQuotas)
		return nil, fmt.Errorf("read quotas: %w: %w", domain.ErrUnavailable, err)
	}
	return page, nil
}

// checkQuotaQuery wants the policy to exist and the quotas to be known.
func (l *Limiter) checkQuotaQuery(policy string) error {
	if _, err := l.rules.inForce.Load().policy(policy); err != nil {
		return err
	}
	return l.quotas.check()
}

// check reports that the store has not told its quotas yet.
func (q *quotas) check() error {
	if !q.known.Load() {
		return errQuotasUnknown
	}
	return nil
}

var (
	errQuotasUnknown = fmt.Errorf("the store has not told the quotas yet: %w", domain.ErrUnavailable)
	errNoQuotas      = fmt.Errorf("the store keeps no quotas: %w", domain.ErrUnavailable)
)
