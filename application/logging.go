package application

import "github.com/nene2-ft/ratelimitlog/domain"

// logging is how the hits of those policies are logged of which the log does not have
// all. It does not change. It goes along with every hit; nil, which is what most rules
// have, logs everything and costs nothing.
type logging struct {
	parts map[string]partLog // by policy
}

type partLog struct {
	audit    domain.Audit
	coverage string // of audit
}

func newLogging(policies []domain.Policy) *logging {
	parts := map[string]partLog{}
	for _, policy := range policies {
		if coverage := policy.Audit.Coverage(); coverage != "" {
			parts[policy.Name] = partLog{policy.Audit, coverage}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return &logging{parts}
}

// of is how many of so many hits alike are logged under a policy, and what the log has
// of its hits. For draw see [domain.Audit.Logged].
func (l *logging) of(policy string, hits int64, allowed bool, draw float64) (logged int64, coverage string) {
	if l == nil {
		return hits, ""
	}
	part, ok := l.parts[policy]
	if !ok {
		return hits, ""
	}
	return part.audit.Logged(hits, allowed, draw), part.coverage
}

// off reports whether the log is to have nothing of a policy's hits.
func (l *logging) off(policy string) bool {
	return l != nil && l.parts[policy].audit.Log == domain.LogOff
}
