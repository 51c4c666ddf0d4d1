package application

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// MaxPage is how much a page of calls or of quotas may hold.
const MaxPage = 1000

// History reads the audit log. It is safe for concurrent use.
type History struct {
	log     domain.AuditLog
	options HistoryOptions
}

// HistoryOptions tune a history. The zero value is good.
type HistoryOptions struct {
	// Flush waits until the log has what this process has answered. It comes before
	// each reading, which fails if it does. Default: the log has it always.
	Flush func(context.Context) error
	// Timeout is how long a page may take, Flush besides. Default: any time.
	Timeout time.Duration
	// Keys is the hasher of the limiters that write to the log; who reads may name a key as
	// it is or as the log has it. Default: keys stay as they are.
	Keys domain.KeyHasher
	// Observer is told when the log fails. Default: nobody is.
	Observer Observer
}

// NewHistory reads from log.
func NewHistory(log domain.AuditLog, options HistoryOptions) *History {
	if options.Observer == nil {
		options.Observer = unobserved{}
	}
	return &History{log: log, options: options}
}

// Calls returns one page of the log. To read on, ask again with Before (newest
// first) or After (oldest first) set to the ID of the last call. A query that
// makes no sense is an *[domain.InvalidError], a log that cannot be read
// [domain.ErrUnavailable].
func (h *History) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	page, _, err := h.Page(ctx, query)
	return page, err
}

// Page is Calls, and tells whether there are more calls than the page has.
func (h *History) Page(ctx context.Context, query domain.CallQuery) (page []domain.Call, more bool, err error) {
	if err := checkPage(query.Limit); err != nil {
		return nil, false, err
	}
	query.Key = h.options.Keys.Lookup(query.Key)
	if err := checkQuery(&query); err != nil {
		return nil, false, err
	}
	if err := h.flush(ctx); err != nil {
		return nil, false, err
	}
	limit := query.Limit
	query.Limit++
	if page, err = h.read(ctx, query); err != nil {
		return nil, false, err
	}
	return page[:min(limit, len(page))], len(page) > limit, nil
}

// Call returns the call of that ID, or a *[domain.NotFoundError] if there is none,
// any more or yet.
func (h *History) Call(ctx context.Context, id int64) (domain.Call, error) {
	if id < 1 {
		return domain.Call{}, &domain.InvalidError{Field: "id", Reason: fmt.Sprintf("is %d, it must be at least 1", id)}
	}
	page, err := h.Calls(ctx, domain.CallQuery{After: id - 1, OldestFirst: true, Limit: 1})
	if err != nil {
		return domain.Call{}, err
	}
	if len(page) == 0 || page[0].ID != id {
		return domain.Call{}, &domain.NotFoundError{Kind: "call", Name: strconv.FormatInt(id, 10)}
	}
	return page[0], nil
}

// Newest is the ID of the newest call, 0 if there is none.
func (h *History) Newest(ctx context.Context) (int64, error) {
	page, err := h.Calls(ctx, domain.CallQuery{Limit: 1})
	if err != nil || len(page) == 0 {
		return 0, err
	}
	return page[0].ID, nil
}

// Each gives page all calls that query asks for and that there were when Each began,
// in its order, at most [MaxPage] at a time. Each page is read by itself, so that
// however long the caller takes for one, the log is not held up. query.Limit bounds
// them all together; 0 is no bound. It ends with the context, and with the first error
// of page, which it returns.
func (h *History) Each(ctx context.Context, query domain.CallQuery, page func([]domain.Call) error) error {
	if query.Limit < 0 {
		return &domain.InvalidError{Field: "limit", Reason: fmt.Sprintf("is %d, it must not be negative", query.Limit)}
	}
	query.Key = h.options.Keys.Lookup(query.Key)
	if err := checkQuery(&query); err != nil {
		return err
	}
	newest, err := h.Newest(ctx)
	if err != nil {
		return err
	}
	if query.Before == 0 || query.Before > newest {
		query.Before = newest + 1
	}
	for calls, err := range h.pages(ctx, query) {
		if err == nil && len(calls) > 0 {
			err = page(calls)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pages are all calls that query asks for, in its order, query.Limit of them at most if
// it is not 0, at most [MaxPage] at a time. Each page is read when it is asked for. An
// error ends them.
func (h *History) pages(ctx context.Context, query domain.CallQuery) iter.Seq2[[]domain.Call, error] {
	left, bounded := query.Limit, query.Limit > 0
	return func(yield func([]domain.Call, error) bool) {
		for {
			query.Limit = MaxPage
			if bounded {
				query.Limit = min(left, MaxPage)
			}
			calls, err := h.read(ctx, query)
			if !yield(calls, err) || err != nil {
				return
			}
			if left -= len(calls); len(calls) < query.Limit || bounded && left == 0 {
				return
			}
			goOn(&query, calls)
		}
	}
}

// goOn makes a query ask for what comes after a page.
func goOn(query *domain.CallQuery, page []domain.Call) {
	if last := page[len(page)-1].ID; query.OldestFirst {
		query.After = last
	} else {
		query.Before = last
	}
}

func (h *History) flush(ctx context.Context) error {
	if h.options.Flush == nil {
		return nil
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	if err := h.options.Flush(ctx); err != nil {
		return fmt.Errorf("bring the log up to date: %w: %w", domain.ErrUnavailable, err)
	}
	return nil
}

func (h *History) read(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	calls, err := h.log.Calls(ctx, query)
	if err != nil {
		tellFailed(ctx, h.options.Observer, opLog)
		return nil, fmt.Errorf("read the log: %w: %w", domain.ErrUnavailable, err)
	}
	return calls, nil
}

// bounded is the context of one step.
func (h *History) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.options.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, h.options.Timeout, errLate)
}
