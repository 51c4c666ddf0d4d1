package application

import (
	"context"
	"errors"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// HitRoute decides what a request costs by the route that its method and path
// take; routed is false, and there is no decision, if they take none. A path that can
// be read in several ways may take several routes, which are hit one after the
// other: the decision is the first refusal, or else that of the first route. Errors
// are those of Hit; an *[domain.InvalidError] about the key names the header that it
// came from. The strings are copied where they are kept.
func (l *Limiter) HitRoute(ctx context.Context, request domain.Request, origin domain.Origin) (d domain.Decision, routed bool, err error) {
	rules := l.rules.inForce.Load()
	routes, err := rules.Routes.Match(origin.Method, origin.Path)
	if err != nil {
		return d, true, err
	}
	for i, route := range routes {
		next, err := l.hitRoute(ctx, rules, route, request, origin)
		if err != nil || !next.Allowed {
			return next, true, err
		}
		if i == 0 {
			d = next
		}
	}
	return d, len(routes) > 0, nil
}

func (l *Limiter) hitRoute(ctx context.Context, rules *ruleSet, route *domain.Route, request domain.Request, origin domain.Origin) (domain.Decision, error) {
	key, err := route.KeyOf(request, &rules.ClientAddress)
	if err != nil {
		return domain.Decision{}, err
	}
	origin.Path = logged(origin.Path, route.Path)
	d, err := l.hit(ctx, rules, domain.Hit{Key: l.keys.Hash(key), Policies: route.Policies, Cost: 1, Origin: origin})
	if err != nil {
		return d, aboutHeader(err, route)
	}
	return d, nil
}

// aboutHeader makes an error about the key one about the header that it came from.
func aboutHeader(err error, route *domain.Route) error {
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) && invalid.Field == "key" && route.Key.Header() != "" {
		return &domain.InvalidError{Field: route.Key.Header(), Reason: invalid.Reason}
	}
	return err
}

// logged is a copy of a path as the log has it: text of at most 512 bytes. known
// spares the copy if it is the same.
func logged(path, known string) string {
	if path == known {
		return known
	}
	return strings.ToValidUTF8(strings.Clone(path[:min(len(path), 512)]), "\uFFFD")
}

// Routes are the routes that a request of this method and path takes now, see
// [domain.Routes.Match].
func (l *Limiter) Routes(method, path string) ([]*domain.Route, error) {
	return l.rules.inForce.Load().Routes.Match(method, path)
}

// ClientAddress is how the addresses of clients are found, as it is in force now.
func (l *Limiter) ClientAddress() domain.ClientAddress { return l.rules.inForce.Load().ClientAddress }
