package domain

import (
	"context"
	"fmt"
)

// Quota is a key's own limit under a policy. It stands in for the policy's limit;
// the schedule stays the policy's.
type Quota struct {
	Policy string
	Key    string
	// Limit is 0 to [MaxUnits], or [Unlimited].
	Limit int64
}

// Check reports with an *InvalidError what is wrong with the quota as such; whether
// its policy exists is not its to say.
func (q Quota) Check() error {
	if err := CheckKey(q.Key); err != nil {
		return err
	}
	if err := CheckPolicyName(q.Policy); err != nil {
		return err
	}
	if !isLimit(q.Limit) {
		return &InvalidError{"limit", fmt.Sprintf("is %d, it must be 0 to %d or unlimited", q.Limit, MaxUnits)}
	}
	return nil
}

// Quotas keeps quotas. It is safe for concurrent use, also by several processes
// that share the store.
type Quotas interface {
	// ChangeQuota sets the quota, or removes it if Removed is set, and appends call
	// to the audit log: both or, with an error, neither. Removing what is not set is
	// no error. The change gets a revision above that of every change before.
	ChangeQuota(ctx context.Context, change QuotaChange, call Call) error

	// Quotas returns the quotas of a policy in the byte order of their keys, at
	// most limit of them, those with keys beyond after.
	Quotas(ctx context.Context, policy, after string, limit int) ([]Quota, error)

	// QuotaChanges returns the last change of each policy and key whose revision is
	// beyond after, in the order of revisions, at most limit of them. Whoever asks
	// again with the revision of the last one misses none.
	QuotaChanges(ctx context.Context, after int64, limit int) ([]QuotaChange, error)
}

// QuotaChange is what became of a quota.
type QuotaChange struct {
	Quota
	// Removed says that the key has no limit of its own any more; Limit has no meaning then.
	Removed bool
	// Revision is given by the store, from 1 up. ChangeQuota ignores it.
	Revision int64
}
