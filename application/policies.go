package application

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Policies are the policies in force. They do not change; the zero value has none.
type Policies struct {
	byName map[string]domain.Policy
	sorted []domain.Policy // by name
}

// NewPolicies puts policies in force. Two of one name are an *[domain.InvalidError].
func NewPolicies(policies ...domain.Policy) (*Policies, error) {
	byName := make(map[string]domain.Policy, len(policies))
	for _, p := range policies {
		if _, twice := byName[p.Name]; twice {
			return nil, &domain.InvalidError{Field: "policy", Reason: fmt.Sprintf("%s is defined twice", p.Name)}
		}
		byName[p.Name] = p
	}
	sorted := slices.Clone(policies)
	slices.SortFunc(sorted, func(a, b domain.Policy) int { return strings.Compare(a.Name, b.Name) })
	return &Policies{byName: byName, sorted: sorted}, nil
}

// All are the policies, sorted by name.
func (p *Policies) All() []domain.Policy { return slices.Clone(p.sorted) }

// Get is the policy of that name, or a *[domain.NotFoundError].
func (p *Policies) Get(name string) (domain.Policy, error) {
	policy, ok := p.byName[name]
	if !ok {
		return domain.Policy{}, &domain.NotFoundError{Kind: "policy", Name: name}
	}
	return policy, nil
}
