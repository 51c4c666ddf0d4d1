package application

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Rules are the policies and routes in force. They can be replaced as a whole
// while hits are decided. Make them with [NewRules].
type Rules struct {
	inForce atomic.Pointer[ruleSet]
}

// ruleSet does not change.
type ruleSet struct {
	domain.Rules                          // its policies sorted by name
	byName       map[string]domain.Policy // the same
	logging      *logging                 // of the same
	revision     string
}

// NewRules puts rules in force. Rules that do not fit together, see
// [domain.Rules.Check], are an *[domain.InvalidError].
func NewRules(rules domain.Rules) (*Rules, error) {
	r := &Rules{}
	return r, r.Replace(rules)
}

// Replace puts other rules in force, all of them or, with an error, none. Hits
// that come later see them; counts of a policy that keeps its name and schedule
// stay. The caller leaves the rules as they are from then on.
func (r *Rules) Replace(rules domain.Rules) error {
	set, err := newRuleSet(rules)
	if err == nil {
		r.inForce.Store(set)
	}
	return err
}

func newRuleSet(rules domain.Rules) (*ruleSet, error) {
	if err := rules.Check(); err != nil {
		return nil, err
	}
	rules.Policies = slices.Clone(rules.Policies)
	slices.SortFunc(rules.Policies, func(a, b domain.Policy) int { return strings.Compare(a.Name, b.Name) })
	set := &ruleSet{Rules: rules, byName: make(map[string]domain.Policy, len(rules.Policies)), logging: newLogging(rules.Policies), revision: revisionOf(&rules)}
	for _, policy := range rules.Policies {
		set.byName[policy.Name] = policy
	}
	return set, nil
}

// Revision is a short name of the rules in force: 12 hexadecimal digits, the same in
// every process that has the same rules, however they are written.
func (r *Rules) Revision() string { return r.inForce.Load().revision }

// Policies are the policies in force, sorted by name.
func (r *Rules) Policies() []domain.Policy { return slices.Clone(r.inForce.Load().Policies) }

// named is names, or the names of all policies if there are none.
func (s *ruleSet) named(names []string) []string {
	if len(names) > 0 {
		return names
	}
	for _, policy := range s.Policies {
		names = append(names, policy.Name)
	}
	return names
}

// policy is the policy of that name, or a *[domain.NotFoundError].
func (s *ruleSet) policy(name string) (domain.Policy, error) {
	policy, ok := s.byName[name]
	if !ok {
		return domain.Policy{}, &domain.NotFoundError{Kind: "policy", Name: name}
	}
	return policy, nil
}
