package application

import (
	"context"
	"fmt"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// compareQuotas holds the quotas against the changes of them that the log has. What
// fits not may have been changed since the log was read: it is looked at again when that is.
func (r *verification) compareQuotas(ctx context.Context) error {
	if r.options.Quotas == nil {
		return nil
	}
	for tries := 1; ; tries++ {
		var faults []Fault
		for after := int64(0); ; {
			page, err := r.options.Quotas.QuotaChanges(ctx, after, MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				after = page[i].Revision
				if fault := r.checkQuota(&page[i]); fault != nil {
					faults = append(faults, *fault)
				}
			}
			if len(page) < MaxPage {
				break
			}
		}
		var lost []int64 // calls that set what has no row; they are never pruned
		for _, said := range r.quotas {
			if !said.removed && !said.held {
				lost = append(lost, said.call)
			}
		}
		if len(faults)+len(lost) == 0 || tries == 3 {
			for _, fault := range faults {
				r.fault(fault)
			}
			return r.lookUp(ctx, lost, func(call *domain.Call) {
				detail := fmt.Sprintf("by the log the limit is %s, and there is no row", domain.FormatLimit(call.Limit))
				r.fault(Fault{Table: "rate_limit_quotas", Policy: call.Policy, Key: call.Key, Detail: detail})
			})
		}
		if err := r.read(ctx); err != nil {
			return err
		}
	}
}

func (r *verification) checkQuota(held *domain.QuotaChange) *Fault {
	at := r.hash(held.Policy, held.Key)
	said, is := r.quotas[at]
	if is {
		said.held = true
		r.quotas[at] = said
	}
	if is && said.removed == held.Removed && (said.removed || said.limit == held.Limit) {
		return nil
	}
	detail := "the log has no call that set it"
	switch {
	case is && said.removed:
		detail = "by the log it was taken away"
	case is:
		detail = fmt.Sprintf("by the log it is %s", domain.FormatLimit(said.limit))
	case held.Removed:
		return nil // nobody has a limit by it
	}
	limit := domain.FormatLimit(held.Limit)
	if held.Removed {
		limit = "none"
	}
	return &Fault{Table: "rate_limit_quotas", Policy: held.Policy, Key: held.Key, Detail: fmt.Sprintf("the limit is %s, and %s", limit, detail)}
}
