package application

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	// logRulesTimeout is how long one attempt to log the rules may take.
	logRulesTimeout = 10 * time.Second
	// logRulesTries is how often it is tried anew because another process logged its
	// own rules at the same moment.
	logRulesTries = 5
)

// revisionOf is the name of rules: a hash of all that is in them, in one order and in
// the text forms that are the same however the rules are written.
func revisionOf(rules *domain.Rules) string {
	var lines []string
	for _, p := range rules.Policies {
		lines = append(lines, fmt.Sprintf("policy %s %s %q shadow %t open %t log %q keep %s rows %d",
			p.Name, domain.FormatLimit(p.Limit), p.Schedule.String(), p.Shadow, p.FailOpen, p.Audit.Coverage(), p.Audit.Keep, p.Audit.MaxRows))
	}
	for _, r := range rules.Routes.All() {
		methods := slices.Sorted(slices.Values(r.Methods))
		lines = append(lines, fmt.Sprintf("route %q %q %q %q %q", r.Path, methods, r.Key.String(), r.Fallback.String(), r.Policies))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n" + clientsText(&rules.ClientAddress)))
	return hex.EncodeToString(sum[:6])
}

// clientsText is a text that is the same for settings that do the same.
func clientsText(c *domain.ClientAddress) string {
	var trusted []string
	for _, prefix := range c.Trusted {
		trusted = append(trusted, prefix.String())
	}
	slices.Sort(trusted)
	header, bits := strings.ToLower(c.Header), c.IPv6Prefix
	if header == "" {
		header = "x-forwarded-for"
	}
	if bits == 0 {
		bits = 64
	}
	return fmt.Sprintf("clients %q %q %d", slices.Compact(trusted), header, bits)
}

// LogRules writes to the audit log what the rules in force are, where it does not say
// so already: a call for each policy that is new or has changed, and one for each that
// is gone. If nothing of that tells the revision apart from the last one in the log,
// because it is a route or when calls are removed that changed, the policies are all
// said again, so that the log has the revision.
//
// at is when they came into force, which may be a while ago if the log was not there;
// origin is a part of the calls, the revision its request ID. It fails with
// [domain.ErrUnavailable], and then nothing is logged. Processes that share the store log the
// same rules once, unless the store keeps its log apart from the counters.
func (l *Limiter) LogRules(ctx context.Context, at time.Time, origin domain.Origin) error {
	l.rulesLog.Lock() // one of this process at a time
	defer l.rulesLog.Unlock()
	return l.logRules(ctx, l.rules.inForce.Load(), at, origin)
}

// replaceTimeout is how long rules that are to be put in force may wait for the log.
const replaceTimeout = 500 * time.Millisecond

// ReplaceRules is [Rules.Replace], and writes to the log before what the rules will be,
// see [Limiter.LogRules], so that no hit is left out of the log by a policy of which the
// log does not say that it leaves hits out. If the log is not there the rules come into
// force all the same; then LogRules is to be called until it succeeds.
func (l *Limiter) ReplaceRules(ctx context.Context, rules domain.Rules, origin domain.Origin) error {
	set, err := newRuleSet(rules)
	if err != nil {
		return err
	}
	if set.revision != l.rules.Revision() && l.rulesLog.TryLock() { // else who has it waits for the log
		defer l.rulesLog.Unlock()
		ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
		defer cancel()
		l.logRules(ctx, set, l.now(), origin)
	}
	l.rules.inForce.Store(set)
	return nil
}

func (l *Limiter) logRules(ctx context.Context, set *ruleSet, at time.Time, origin domain.Origin) error {
	origin.RequestID = set.revision
	var logged int
	var err error
	for range logRulesTries {
		err = attempt(ctx, l.units, logRulesTimeout, func(_ domain.Counter, log domain.AuditLog) error {
			said, err := readRules(ctx, log)
			if err != nil {
				return err
			}
			logged, err = said.update(ctx, log, set, at, origin)
			return err
		})
		if !errors.Is(err, errRulesLogged) {
			break
		}
	}
	if err != nil {
		l.observer.StoreFailed(opLog)
		return fmt.Errorf("log the rules: %w", err)
	}
	l.observer.Logged(logged)
	return nil
}

// errRulesLogged says that somebody else logged rules since they were read.
var errRulesLogged = errors.New("another process logged its rules at the same moment")

// aboutRules are the kinds of calls that say what the rules are.
var aboutRules = []domain.CallKind{domain.CallPolicySet, domain.CallPolicyRemoved}

// rulesSaid is what the log says of the rules.
type rulesSaid struct {
	revision string                 // of the last call
	last     int64                  // its ID
	policies map[string]domain.Call // the last call of each policy, by name
}

// readRules reads the log back to its beginning: a policy that is gone may have been
// spoken of last at any time. The calls are few, as many as there were changes.
func readRules(ctx context.Context, log domain.AuditLog) (rulesSaid, error) {
	said := rulesSaid{policies: map[string]domain.Call{}}
	query := domain.CallQuery{Kinds: aboutRules, Limit: MaxPage}
	for {
		page, err := log.Calls(ctx, query)
		if err != nil {
			return said, err
		}
		for _, call := range page {
			if said.last == 0 {
				said.revision, said.last = call.RequestID, call.ID
			}
			if _, known := said.policies[call.Policy]; !known {
				said.policies[call.Policy] = call
			}
		}
		if len(page) < query.Limit {
			return said, nil
		}
		query.Before = page[len(page)-1].ID
	}
}

// Others names the policies of which the log last said something else than these are,
// or which only one of the two has, sorted: who reads beside a server may go by other
// rules than that enforces. It names none if the log says nothing of policies.
func (h *History) Others(ctx context.Context, policies []domain.Policy) ([]string, error) {
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	said, err := readRules(ctx, h.log)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w: %w", domain.ErrUnavailable, err)
	}
	if said.last == 0 {
		return nil, nil
	}
	set, err := newRuleSet(domain.Rules{Policies: policies})
	if err != nil {
		return nil, err
	}
	set.revision = said.revision // routes and how long calls are kept are not asked about
	var names []string
	for _, call := range said.changes(set, time.Time{}, domain.Origin{}) {
		names = append(names, call.Policy)
	}
	return names, nil
}

// update logs what is to be said of the rules beyond that, and tells how many calls it took.
func (s *rulesSaid) update(ctx context.Context, log domain.AuditLog, set *ruleSet, at time.Time, origin domain.Origin) (logged int, err error) {
	calls := s.changes(set, at, origin)
	if len(calls) == 0 {
		return 0, nil
	}
	if err := log.Append(ctx, calls); err != nil {
		return 0, err
	}
	// Some stores let others append until this unit has: then there is more than that.
	since, err := log.Calls(ctx, domain.CallQuery{Kinds: aboutRules, After: s.last, OldestFirst: true, Limit: len(calls) + 1})
	if err == nil && len(since) > len(calls) {
		err = errRulesLogged
	}
	return len(calls), err
}

func (s *rulesSaid) changes(set *ruleSet, at time.Time, origin domain.Origin) (calls []domain.Call) {
	var all []domain.Call
	for _, p := range set.Policies {
		call := domain.Call{
			Kind: domain.CallPolicySet, At: at, Policy: p.Name, Allowed: true, Limit: p.Limit,
			Schedule: p.Schedule.String(), Shadow: p.Shadow, Coverage: p.Audit.Coverage(), Origin: origin,
		}
		all = append(all, call)
		if said, known := s.policies[p.Name]; !known || !sameRule(&said, &call) {
			calls = append(calls, call)
		}
	}
	for name, said := range s.policies {
		if _, ok := set.byName[name]; !ok && said.Kind == domain.CallPolicySet {
			calls = append(calls, domain.Call{Kind: domain.CallPolicyRemoved, At: at, Policy: name, Allowed: true, Origin: origin})
		}
	}
	if len(calls) == 0 && s.revision != set.revision {
		return all
	}
	slices.SortFunc(calls, func(a, b domain.Call) int { return strings.Compare(a.Policy, b.Policy) })
	return calls
}

// sameRule reports whether two calls say the same of a policy.
func sameRule(a, b *domain.Call) bool {
	return a.Kind == b.Kind && a.Limit == b.Limit && a.Schedule == b.Schedule && a.Shadow == b.Shadow && a.Coverage == b.Coverage
}
