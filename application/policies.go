package application

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Policies are the policies in force. They can be replaced as a whole while hits
// are decided. Make them with [NewPolicies].
type Policies struct {
	inForce atomic.Pointer[policySet]
}

// policySet does not change.
type policySet struct {
	byName map[string]domain.Policy
	sorted []domain.Policy // by name
}

// NewPolicies puts policies in force. Two of one name are an *[domain.InvalidError].
func NewPolicies(policies ...domain.Policy) (*Policies, error) {
	p := &Policies{}
	return p, p.Replace(policies...)
}

// Replace puts other policies in force, all of them or, with an error, none. Hits
// that come later see them; counts of a policy that keeps its name and schedule stay.
func (p *Policies) Replace(policies ...domain.Policy) error {
	set := &policySet{byName: make(map[string]domain.Policy, len(policies)), sorted: slices.Clone(policies)}
	for _, policy := range policies {
		if _, twice := set.byName[policy.Name]; twice {
			return &domain.InvalidError{Field: "policy", Reason: fmt.Sprintf("%s is defined twice", policy.Name)}
		}
		set.byName[policy.Name] = policy
	}
	slices.SortFunc(set.sorted, func(a, b domain.Policy) int { return strings.Compare(a.Name, b.Name) })
	p.inForce.Store(set)
	return nil
}

// All are the policies, sorted by name.
func (p *Policies) All() []domain.Policy { return slices.Clone(p.inForce.Load().sorted) }

// Get is the policy of that name, or a *[domain.NotFoundError].
func (p *Policies) Get(name string) (domain.Policy, error) { return p.inForce.Load().get(name) }

func (s *policySet) get(name string) (domain.Policy, error) {
	policy, ok := s.byName[name]
	if !ok {
		return domain.Policy{}, &domain.NotFoundError{Kind: "policy", Name: name}
	}
	return policy, nil
}
