package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func policyDecision(name string, limit, count, refused int64, seconds int, refuses bool) domain.PolicyDecision {
	return domain.PolicyDecision{
		Policy: name, Limit: limit, Window: domain.Window{Start: newYear, End: newYear.Add(time.Duration(seconds) * time.Second)},
		Tally: domain.Tally{Count: count, Refused: refused, Refuses: refuses},
	}
}

func TestNearestIsThePolicyNearestToRefusal(t *testing.T) {
	half, tenth := policyDecision("half", 10, 5, 0, 60, false), policyDecision("tenth", 1000, 900, 0, 60, false)
	long := policyDecision("long", 20, 10, 0, 3600, false)
	free, refusing := policyDecision("free", domain.Unlimited, 5, 0, 60, false), policyDecision("refusing", 10, 9, 2, 60, true)
	for _, c := range []struct {
		want     string
		policies []domain.PolicyDecision
	}{
		{"half", []domain.PolicyDecision{half}},
		{"tenth", []domain.PolicyDecision{half, tenth, free}},
		{"half", []domain.PolicyDecision{free, half}},
		{"refusing", []domain.PolicyDecision{tenth, refusing, free}},
		{"long", []domain.PolicyDecision{half, long}},
	} {
		for range 2 {
			if got := (&domain.Decision{Policies: c.policies}).Nearest(); got.Policy != c.want {
				t.Errorf("the nearest of %v is %s, want %s", names(c.policies), got.Policy, c.want)
			}
			slices.Reverse(c.policies) // the order is irrelevant
		}
	}
}

func names(policies []domain.PolicyDecision) (names []string) {
	for _, p := range policies {
		names = append(names, p.Policy)
	}
	return names
}

func TestARefusalSaysHowLongToWaitForAllThatRefused(t *testing.T) {
	d := domain.Decision{Key: "alice", Cost: 1, At: newYear.Add(10 * time.Second), Policies: []domain.PolicyDecision{
		policyDecision("burst", 3, 4, 1, 60, true),
		policyDecision("fine", 100, 4, 0, 86400, false),
		policyDecision("daily", 5, 6, 1, 3600, true),
	}}
	var exceeded *domain.RateLimitExceeded
	if !errors.As(d.Err(), &exceeded) {
		t.Fatalf("Err = %v", d.Err())
	}
	if exceeded.Policy != "daily" || exceeded.RetryAfter != 3590 || !slices.Equal(exceeded.Violated, []string{"burst", "daily"}) {
		t.Errorf("exceeded = %+v", exceeded)
	}
	if got, want := exceeded.Error(), "Rate limit of 5 requests per 3600s exceeded for key 'alice'."; got != want {
		t.Errorf("detail = %q, want %q", got, want)
	}
}

func TestTheZeroDecisionIsNoError(t *testing.T) {
	if err := (domain.Decision{}).Err(); err != nil {
		t.Errorf("err = %v", err)
	}
}

func TestAnAllowedDecisionIsNoErrorAndHasNoWait(t *testing.T) {
	d := domain.Decision{Allowed: true, At: newYear, Policies: []domain.PolicyDecision{policyDecision("p", 3, 3, 0, 60, false)}}
	if d.Err() != nil || d.RetryAfter() != 0 || d.Policies[0].Remaining() != 0 {
		t.Errorf("err %v, retry after %d, remaining %d", d.Err(), d.RetryAfter(), d.Policies[0].Remaining())
	}
}

func TestPoliciesAndHitsAreChecked(t *testing.T) {
	minute := fixed(t, time.Minute)
	for _, c := range []struct {
		field string
		err   error
	}{
		{"policy", second(domain.NewPolicy("", 1, minute))},
		{"policy", second(domain.NewPolicy("a b", 1, minute))},
		{"policy", second(domain.NewPolicy("-a", 1, minute))},
		{"policy", second(domain.NewPolicy("é", 1, minute))},
		{"policy", second(domain.NewPolicy(fmt.Sprintf("%065d", 0), 1, minute))},
		{"limit", second(domain.NewPolicy("p", -1, minute))},
		{"limit", second(domain.NewPolicy("p", domain.MaxUnits+1, minute))},
		{"window", second(domain.NewPolicy("p", 1, domain.Schedule{}))},
		{"key", domain.Hit{Policies: []string{"p"}}.Check()},
		{"cost", domain.Hit{Key: "k", Policies: []string{"p"}, Cost: -1}.Check()},
		{"cost", domain.Hit{Key: "k", Policies: []string{"p"}, Cost: domain.MaxUnits + 1}.Check()},
		{"policies", domain.Hit{Key: "k"}.Check()},
		{"policies", domain.Hit{Key: "k", Policies: []string{"p", "q", "p"}}.Check()},
	} {
		var invalid *domain.InvalidError
		if !errors.As(c.err, &invalid) || invalid.Field != c.field {
			t.Errorf("got %v, want an *InvalidError of %s", c.err, c.field)
		}
	}
	for _, limit := range []int64{0, 1, domain.MaxUnits, domain.Unlimited} {
		if _, err := domain.NewPolicy("a.b_c-1", limit, minute); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestLimitsHaveOneText(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "60": 60, "999999999999999": domain.MaxUnits, "unlimited": domain.Unlimited} {
		got, err := domain.ParseLimit(text)
		if err != nil || got != want || domain.FormatLimit(got) != text {
			t.Errorf("%q is read as %d, %v, and written %q", text, got, err, domain.FormatLimit(got))
		}
	}
	for _, text := range []string{"", " 1", "-1", "+1", "1.5", "1e3", "0x10", "010", "00", "null", "Unlimited", "1000000000000000", "99999999999999999999"} {
		if got, err := domain.ParseLimit(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
