package application_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestHistoryRefusesQueriesThatMakeNoSense(t *testing.T) { // case 158
	history := application.NewHistory(openStore(t), application.HistoryOptions{})
	now := time.Now()
	for _, c := range []struct {
		query domain.CallQuery
		field string
	}{
		{domain.CallQuery{}, "limit"},
		{domain.CallQuery{Limit: -1}, "limit"},
		{domain.CallQuery{Limit: application.MaxPage + 1}, "limit"},
		{domain.CallQuery{Limit: 1, Key: "a\x00"}, "key"},
		{domain.CallQuery{Limit: 1, Policy: "a b"}, "policy"},
		{domain.CallQuery{Limit: 1, Outcome: "maybe"}, "outcome"},
		{domain.CallQuery{Limit: 1, Kinds: []domain.CallKind{domain.CallHit, "hits"}}, "kind"},
		{domain.CallQuery{Limit: 1, Kinds: []domain.CallKind{""}}, "kind"},
		{domain.CallQuery{Limit: 1, From: now, To: now}, "to"},
		{domain.CallQuery{Limit: 1, From: now, To: now.Add(-time.Hour)}, "to"},
		{domain.CallQuery{Limit: 1, From: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)}, "from"},
		{domain.CallQuery{Limit: 1, To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "to"},
		{domain.CallQuery{Limit: 1, Path: "/\xff"}, "path"},
		{domain.CallQuery{Limit: 1, Path: "/\x00"}, "path"},
		{domain.CallQuery{Limit: 1, Path: strings.Repeat("/", 16<<10+1)}, "path"},
		{domain.CallQuery{Limit: 1, RequestID: "\xff"}, "request_id"},
		{domain.CallQuery{Limit: 1, After: -1}, "after"},
		{domain.CallQuery{Limit: 1, Before: -1}, "before"},
	} {
		var invalid *domain.InvalidError
		if _, err := history.Calls(context.Background(), c.query); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%+v: %v", c.query, err)
		}
		if c.query.Limit != 1 {
			continue
		}
		never := func([]domain.Call) error { t.Errorf("%+v has a page", c.query); return nil }
		if err := history.Each(context.Background(), c.query, never); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("each of %+v: %v", c.query, err)
		}
	}
}

// appendCalls logs n calls of the key.
func appendCalls(t testing.TB, log domain.AuditLog, key string, n int) {
	t.Helper()
	calls := make([]domain.Call, n)
	for i := range calls {
		calls[i] = domain.Call{Kind: domain.CallHit, At: time.Unix(1767225600, 0), Policy: "p", Key: key, Cost: 1, Hits: 1, Allowed: true, Schedule: "fixed 1m"}
	}
	if err := log.Append(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
}

func TestAPageSaysWhetherThereIsMore(t *testing.T) {
	store := openStore(t)
	history := application.NewHistory(store, application.HistoryOptions{})
	appendCalls(t, store, "k", application.MaxPage)
	for limit, want := range map[int]bool{1: true, application.MaxPage - 1: true, application.MaxPage: false} {
		page, more, err := history.Page(t.Context(), domain.CallQuery{Limit: limit})
		if err != nil || len(page) != limit || more != want {
			t.Errorf("a page of %d has %d calls, more %v, %v", limit, len(page), more, err)
		}
	}
}

func TestACallIsFoundByItsID(t *testing.T) {
	store := openStore(t)
	history := application.NewHistory(store, application.HistoryOptions{})
	appendCalls(t, store, "k", 3)
	for id := int64(1); id <= 3; id++ {
		if call, err := history.Call(t.Context(), id); err != nil || call.ID != id {
			t.Errorf("call %d is %+v, %v", id, call, err)
		}
	}
	for _, id := range []int64{4, 1<<63 - 1} {
		if _, err := history.Call(t.Context(), id); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("call %d: %v", id, err)
		}
	}
	if _, err := history.Call(t.Context(), 0); !errors.As(err, new(*domain.InvalidError)) {
		t.Errorf("call 0: %v", err)
	}
}

func TestEachGivesWhatWasThereWhenItBegan(t *testing.T) { // case 154
	const calls = 2*application.MaxPage + 500
	for _, oldestFirst := range []bool{true, false} {
		for limit, want := range map[int]int{0: calls, 1: 1, application.MaxPage: application.MaxPage, 1500: 1500, calls + 1: calls} {
			store := openStore(t)
			appendCalls(t, store, "k", calls)
			var ids []int64
			query := domain.CallQuery{Key: "k", OldestFirst: oldestFirst, Limit: limit}
			err := application.NewHistory(store, application.HistoryOptions{}).Each(t.Context(), query, func(page []domain.Call) error {
				for _, call := range page {
					ids = append(ids, call.ID)
				}
				appendCalls(t, store, "k", 10)
				return nil
			})
			if err != nil || len(ids) != want {
				t.Fatalf("oldest first %v, limit %d: %d calls, %v", oldestFirst, limit, len(ids), err)
			}
			if !oldestFirst {
				slices.Reverse(ids)
			}
			if first := ids[0]; !slices.IsSorted(ids) || first+int64(want)-1 != ids[want-1] || !oldestFirst && ids[want-1] != calls || oldestFirst && first != 1 {
				t.Errorf("oldest first %v, limit %d: %d to %d", oldestFirst, limit, first, ids[want-1])
			}
		}
	}
}

func TestEachEndsWithTheContextAndWithItsCallback(t *testing.T) {
	store := openStore(t)
	appendCalls(t, store, "k", 3*application.MaxPage)
	history := application.NewHistory(store, application.HistoryOptions{})
	enough, pages := errors.New("enough"), 0
	if err := history.Each(t.Context(), domain.CallQuery{}, func([]domain.Call) error { pages++; return enough }); err != enough || pages != 1 {
		t.Errorf("after %d pages: %v", pages, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := history.Each(ctx, domain.CallQuery{}, func([]domain.Call) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}

// failingLog is a log that cannot be read.
type failingLog struct{ domain.AuditLog }

func (failingLog) Calls(ctx context.Context, _ domain.CallQuery) ([]domain.Call, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("the disk is gone: %w", context.Cause(ctx))
}

func TestALogThatCannotBeReadInTimeIsUnavailable(t *testing.T) {
	history := application.NewHistory(failingLog{}, application.HistoryOptions{Timeout: time.Millisecond})
	if _, err := history.Calls(t.Context(), domain.CallQuery{Limit: 1}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("a page: %v", err)
	}
	if err := history.Each(t.Context(), domain.CallQuery{}, nil); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("all pages: %v", err)
	}
	behind := application.HistoryOptions{Flush: func(context.Context) error { return errors.New("behind") }}
	if _, err := application.NewHistory(openStore(t), behind).Calls(t.Context(), domain.CallQuery{Limit: 1}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("a log that is behind: %v", err)
	}
}
