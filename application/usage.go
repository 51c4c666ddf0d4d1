package application

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	// DefaultTop is how many groups of usage are told if none said how many.
	DefaultTop = 10
	// maxGroups is how many groups may be added up. All are in memory, some 200 bytes
	// and the name each.
	maxGroups = 1_000_000
)

// UsageQuery says which hits to add up, and by what.
type UsageQuery struct {
	By domain.UsageBy
	// From and To bound the time of the hits, [From, To); the zero time is no bound.
	From, To time.Time
	// Zone is what hours, days and months are civil in, and has no meaning by anything
	// else. Nil is UTC.
	Zone *time.Location
	// Key, Policy and Path leave only their hits; "" leaves all.
	Key, Policy, Path string
	// Top is how many groups to tell, 1 to [MaxPage]; 0 is [DefaultTop]. Of times all are
	// told, and it must be 0.
	Top int
	// ByRefused puts the groups with most refused units first, and leaves out those without
	// any. It has no meaning for times.
	ByRefused bool
}

// Default fills in what is not said of the span: up to the end of the second of now, so
// that what was just answered is in it, and from a day before.
func (q *UsageQuery) Default(now time.Time) {
	if q.To.IsZero() {
		q.To = now.Truncate(time.Second).Add(time.Second)
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-24 * time.Hour)
		if epoch := time.Unix(0, 0); q.From.Before(epoch) { // see [domain.CheckTime]
			q.From = epoch
		}
	}
}

// Usage adds up hits. Those that were allowed unchecked are in no window and not in it.
// By key, policy or path the groups with most units come first (see ByRefused), and of equals the one
// that is first in byte order. By a time all groups come that have hits, in order, and
// if they are more than [MaxPage] that is an *[domain.InvalidError], as is a query that
// makes no sense and one that comes to more than a million groups.
// [domain.ErrUnavailable] says that the log could not be read, or not in time.
func (h *History) Usage(ctx context.Context, query UsageQuery) (domain.Usage, error) {
	query.Key = h.options.Keys.Lookup(query.Key)
	sums, err := query.check()
	if err != nil {
		return domain.Usage{}, err
	}
	if err := h.flush(ctx); err != nil {
		return domain.Usage{}, err
	}
	if err := h.addUp(ctx, query, sums); err != nil {
		return domain.Usage{}, err
	}
	inForce, err := h.wasInForce(ctx, &query)
	if err != nil {
		return domain.Usage{}, err
	}
	if sums.all.Partial = sums.all.Partial || inForce.partial; !sums.all.Partial {
		if sums.all.Partial, err = h.prunedInPart(ctx, query.Policy, query.From); err != nil {
			return domain.Usage{}, err
		}
	}
	if query.By.IsTime() && len(sums.groups) > MaxPage {
		return domain.Usage{}, &domain.InvalidError{Field: "by", Reason: fmt.Sprintf("is %s, which would be %d groups; at most %d are told", query.By, len(sums.groups), MaxPage)}
	}
	usage := domain.Usage{By: query.By, From: query.From, To: query.To, Zone: query.Zone, Partial: sums.all.Partial, Shadow: inForce.shadow, Groups: len(sums.groups), Allowed: sums.all.Allowed, Refused: sums.all.Refused}
	for _, group := range sums.groups {
		usage.Top = append(usage.Top, *group)
	}
	if query.By.IsTime() {
		slices.SortFunc(usage.Top, func(a, b domain.UsageGroup) int { return a.Window.Start.Compare(b.Window.Start) })
		return usage, nil
	}
	if query.ByRefused {
		usage.Top = slices.DeleteFunc(usage.Top, func(g domain.UsageGroup) bool { return g.Refused == 0 })
	}
	slices.SortFunc(usage.Top, func(a, b domain.UsageGroup) int {
		if query.ByRefused && a.Refused != b.Refused {
			return cmp.Compare(b.Refused, a.Refused)
		}
		// Unsigned, because two int64 fit in there.
		return cmp.Or(cmp.Compare(uint64(b.Allowed)+uint64(b.Refused), uint64(a.Allowed)+uint64(a.Refused)), strings.Compare(a.Name, b.Name))
	})
	usage.Top = usage.Top[:min(len(usage.Top), query.Top)]
	return usage, nil
}

// addUp lets sums add what the query asks for.
func (h *History) addUp(ctx context.Context, query UsageQuery, sums *usageSums) error {
	total := domain.TotalQuery{Policy: query.Policy, Key: query.Key, Path: query.Path, From: query.From, To: query.To, By: query.By}
	if sums.period != nil {
		total.Same = func(a, b time.Time) bool { return sums.period(a).Contains(b) }
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	sums.full = stop
	err := h.totals(ctx, total, sums.add)
	if tooMany := context.Cause(ctx); len(sums.groups) > maxGroups {
		return tooMany
	}
	return err
}

// totals passes to add the sums of what the query asks for, by the log's own means if
// it has some.
func (h *History) totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	if log, ok := h.log.(domain.Totaler); ok {
		if err := log.Totals(ctx, query, add); err != nil {
			tellFailed(ctx, h.options.Observer, opLog)
			return fmt.Errorf("add up the log: %w: %w", domain.ErrUnavailable, err)
		}
		return nil
	}
	calls := domain.CallQuery{
		Policy: query.Policy, Key: query.Key, Path: query.Path, From: query.From, To: query.To, Kinds: []domain.CallKind{domain.CallHit}, OldestFirst: true,
	}
	for page, err := range h.pages(ctx, calls) {
		if err != nil {
			return err
		}
		for i := range page {
			add(query.Total(&page[i]))
		}
	}
	return nil
}

// check fills in the defaults and makes the sums to add to.
func (q *UsageQuery) check() (*usageSums, error) {
	zone, top := q.Zone, q.Top
	if zone == nil {
		q.Zone = time.UTC
	}
	if top == 0 {
		q.Top = DefaultTop
	}
	sums := &usageSums{groups: map[usageID]*domain.UsageGroup{}}
	var err error
	switch q.By {
	case domain.UsageByKey, domain.UsageByPolicy, domain.UsageByPath:
	case domain.UsageByMinute, domain.UsageByHour, domain.UsageByDay, domain.UsageByMonth:
		sums.period, err = q.By.Periods(q.Zone)
	default:
		err = &domain.InvalidError{Field: "by", Reason: fmt.Sprintf("is %q, it must be key, policy, path, minute, hour, day or month", q.By)}
	}
	switch {
	case err != nil:
	case q.By.IsTime() && top != 0:
		err = &domain.InvalidError{Field: "top", Reason: fmt.Sprintf("is for keys, policies and paths; by %s all are told", q.By)}
	case !q.By.IsTime() && zone != nil:
		err = &domain.InvalidError{Field: "zone", Reason: fmt.Sprintf("is for minutes, hours, days and months; by %s it says nothing", q.By)}
	case q.Top < 1 || q.Top > MaxPage:
		err = &domain.InvalidError{Field: "top", Reason: fmt.Sprintf("is %d, it must be 1 to %d", q.Top, MaxPage)}
	default:
		err = checkTimes(q.From, q.To)
	}
	if err == nil && q.Key != "" {
		err = domain.CheckKey(q.Key)
	}
	if err == nil && q.Policy != "" {
		err = domain.CheckPolicyName(q.Policy)
	}
	return sums, err
}

// usageSums are the groups of a query, as far as they have been added up.
type usageSums struct {
	period func(time.Time) domain.Window // of groups of time
	groups map[usageID]*domain.UsageGroup
	all    domain.Total
	full   context.CancelCauseFunc // told that there are too many groups
}

// usageID is what tells groups apart: the name, or when the time begins.
type usageID struct {
	name  string
	start int64
}

func (s *usageSums) add(total domain.Total) {
	if len(s.groups) > maxGroups {
		return
	}
	s.all.Add(total)
	id, window := usageID{name: total.Group}, domain.Window{}
	if s.period != nil {
		window = s.period(total.At)
		id = usageID{start: window.Start.Unix()}
	}
	group := s.groups[id]
	if group == nil {
		group = &domain.UsageGroup{Name: strings.Clone(id.name), Window: window}
		id.name = group.Name // so that the text of a whole page is not kept for it
		s.groups[id] = group
		if len(s.groups) > maxGroups {
			s.full(&domain.InvalidError{Field: "by", Reason: fmt.Sprintf("comes to more than %d groups; ask for a shorter time, or for one policy or path", maxGroups)})
		}
	}
	sum := domain.Total{Allowed: group.Allowed, Refused: group.Refused}
	sum.Add(total)
	group.Allowed, group.Refused = sum.Allowed, sum.Refused
}
