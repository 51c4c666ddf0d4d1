package application

import (
	"context"
	"fmt"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// MaxPage is how much a page of calls or of quotas may hold.
const MaxPage = 1000

func checkPage(limit int) error {
	if limit < 1 || limit > MaxPage {
		return &domain.InvalidError{Field: "limit", Reason: fmt.Sprintf("is %d, it must be 1 to %d", limit, MaxPage)}
	}
	return nil
}

// History reads the audit log. It is safe for concurrent use.
type History struct {
	log  domain.AuditLog
	keys domain.KeyHasher
}

// NewHistory reads from log. keys is the hasher of the limiters that write to it.
func NewHistory(log domain.AuditLog, keys domain.KeyHasher) *History {
	return &History{log: log, keys: keys}
}

// Calls returns one page of the log. To read on, ask again with Before (newest
// first) or After (oldest first) set to the ID of the last call. A query that
// makes no sense is an *[domain.InvalidError]. A key may be named as it is or as the
// log has it.
func (h *History) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	if err := checkPage(query.Limit); err != nil {
		return nil, err
	}
	query.Key = h.keys.Lookup(query.Key)
	if query.Key != "" {
		if err := domain.CheckKey(query.Key); err != nil {
			return nil, err
		}
	}
	if query.Policy != "" {
		if err := domain.CheckPolicyName(query.Policy); err != nil {
			return nil, err
		}
	}
	switch query.Outcome {
	case "", domain.OutcomeAllowed, domain.OutcomeRefused:
	default:
		return nil, &domain.InvalidError{Field: "outcome", Reason: fmt.Sprintf("is %q, it must be allowed or refused", query.Outcome)}
	}
	return h.log.Calls(ctx, query)
}
