package application_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestHistoryRefusesQueriesThatMakeNoSense(t *testing.T) { // case 158
	history := application.NewHistory(openStore(t), domain.KeyHasher{})
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
	} {
		var invalid *domain.InvalidError
		if _, err := history.Calls(context.Background(), c.query); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%+v: %v", c.query, err)
		}
	}
}
