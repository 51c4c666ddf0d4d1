package application_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// manyKeys is a log with hits of so many keys, and more until it is told to stop.
type manyKeys struct{ domain.AuditLog }

func (manyKeys) Totals(ctx context.Context, _ domain.TotalQuery, add func(domain.Total)) error {
	for i := 0; ctx.Err() == nil; i++ {
		add(domain.Total{Group: strconv.Itoa(i), Allowed: 1})
	}
	return ctx.Err()
}

func TestUsageStopsBeforeTooManyGroups(t *testing.T) {
	_, err := application.NewHistory(manyKeys{}, application.HistoryOptions{}).Usage(t.Context(), application.UsageQuery{By: domain.UsageByKey})
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "by" || !strings.Contains(invalid.Reason, "more than 1000000 groups") {
		t.Errorf("err = %v", err)
	}
}

// silent is a log that does not answer.
type silent struct{ domain.AuditLog }

func (silent) Calls(ctx context.Context, _ domain.CallQuery) ([]domain.Call, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestUsageOfALogThatDoesNotAnswerIsUnavailable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := application.NewHistory(silent{}, application.HistoryOptions{}).Usage(ctx, application.UsageQuery{By: domain.UsageByKey})
	if !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
}
