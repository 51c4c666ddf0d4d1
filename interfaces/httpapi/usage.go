package httpapi

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// usage adds up hits from the audit log.
func (s *Server) usage(c *fiber.Ctx, _ asked) error {
	query, err := s.usageQuery(c)
	if err != nil {
		return err
	}
	ctx, cancel := adding(c)
	defer cancel()
	usage, err := s.history.Usage(ctx, query)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendUsage(b, &usage) })
	return nil
}

func (s *Server) usageQuery(c *fiber.Ctx) (application.UsageQuery, error) {
	values, err := parameters(c, "by", "from", "to", "zone", "top", "order", "key", "policy", "path")
	if err != nil {
		return application.UsageQuery{}, err
	}
	query := application.UsageQuery{By: domain.UsageBy(cmp.Or(values.Get("by"), string(domain.UsageByKey))), Key: values.Get("key"), Policy: values.Get("policy"), Path: values.Get("path")}
	if values.Has("zone") {
		if query.Zone, err = domain.Zone(values.Get("zone")); err != nil {
			return query, err
		}
	}
	if query.From, err = timeParameter(values, "from"); err != nil {
		return query, err
	}
	if query.To, err = timeParameter(values, "to"); err != nil {
		return query, err
	}
	if query.ByRefused, err = domain.ParseUsageOrder(values.Get("order"), query.By); err != nil {
		return query, err
	}
	query.Default(s.limiter.Now())
	if !values.Has("top") {
		return query, nil
	}
	query.Top, err = strconv.Atoi(values.Get("top"))
	if err != nil || query.Top == 0 { // which would be the default; other bounds are the history's to say
		err = &domain.InvalidError{Field: "top", Reason: fmt.Sprintf("must be a whole number from 1 to %d", application.MaxPage)}
	}
	return query, err
}
