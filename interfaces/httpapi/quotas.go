package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

const defaultPage = 100

// quotas shows the own limit of a key under a policy, or a page of the policy's quotas.
func (s *Server) quotas(c *fiber.Ctx, _ asked) error {
	query, policy, err := policyQuery(c, "key", "limit", "cursor")
	if err != nil {
		return err
	}
	if !query.Has("key") {
		return s.quotaPage(c, query, policy)
	}
	quota, err := s.limiter.Quota(policy, query.Get("key"))
	if err != nil {
		return err
	}
	return sendQuota(c, quota)
}

func (s *Server) quotaPage(c *fiber.Ctx, query url.Values, policy string) error {
	limit, err := pageLimit(query)
	if err != nil {
		return err
	}
	after, err := decodeCursor(query.Get("cursor"))
	if err != nil {
		return asProblem(problem.InvalidRequest(problem.Invalid{Detail: "cursor must be what next said before", Parameter: "cursor"}))
	}
	page, err := s.limiter.Quotas(c.UserContext(), policy, string(after), limit)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	next := ""
	if len(page) == limit {
		next = base64.RawURLEncoding.EncodeToString([]byte(page[limit-1].Key))
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendQuotas(b, page, next) })
	return nil
}

// pageLimit reads how much a page may hold.
func pageLimit(query url.Values) (int, error) {
	text, err := one(query, "limit", strconv.Itoa(defaultPage))
	if err != nil {
		return 0, err
	}
	limit, err := strconv.Atoi(text) // whether it is in bounds the limiter says
	if err != nil {
		return 0, asProblem(problem.InvalidRequest(problem.Invalid{
			Detail: fmt.Sprintf("limit must be a whole number from 1 to %d", application.MaxPage), Parameter: "limit",
		}))
	}
	return limit, nil
}

// setQuota gives a key a limit of its own: {"limit":500}, or {"limit":"unlimited"}.
func (s *Server) setQuota(c *fiber.Ctx, r asked) error {
	quota, err := quotaQuery(c)
	if err != nil {
		return err
	}
	if err := readObject(c.BodyRaw(), map[string]func(value) error{
		"limit": func(v value) (err error) { quota.Limit, err = v.units(); return err },
	}, "limit"); err != nil {
		return err
	}
	if err := s.limiter.SetQuota(c.UserContext(), quota, change(c, "/v1/quotas", r)); err != nil {
		return err
	}
	quota.Key = s.limiter.KeptAs(quota.Key)
	return sendQuota(c, quota)
}

// unsetQuota lets the policy's limit apply to a key again.
func (s *Server) unsetQuota(c *fiber.Ctx, r asked) error {
	quota, err := quotaQuery(c)
	if err != nil {
		return err
	}
	if err := s.limiter.UnsetQuota(c.UserContext(), quota.Policy, quota.Key, change(c, "/v1/quotas", r)); err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	c.Status(fiber.StatusNoContent)
	return nil
}

func sendQuota(c *fiber.Ctx, quota domain.Quota) error {
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendQuota(b, quota) })
	return nil
}

// quotaQuery reads which quota a request is about.
func quotaQuery(c *fiber.Ctx) (domain.Quota, error) {
	query, policy, err := policyQuery(c, "key")
	return domain.Quota{Policy: policy, Key: query.Get("key")}, err
}

// policyQuery reads the query and the policy in it, which must be there.
func policyQuery(c *fiber.Ctx, others ...string) (query url.Values, policy string, err error) {
	if query, err = named(c, append(others, "policy")...); err != nil {
		return nil, "", err
	}
	if policy = query.Get("policy"); policy == "" {
		err = asProblem(problem.InvalidRequest(problem.Invalid{Detail: "policy must be named", Parameter: "policy"}))
	}
	return query, policy, err
}
