package main

import (
	"encoding/json"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type quotaCmd struct {
	Get   quotaGetCmd   `cmd:"" help:"Show a key's own limit under a policy. Exit status 2: it has none."`
	Set   quotaSetCmd   `cmd:"" help:"Give a key a limit of its own; running servers notice within a second."`
	Unset quotaUnsetCmd `cmd:"" help:"Let the policy's limit apply to a key again."`
	List  quotaListCmd  `cmd:"" help:"List the keys that have a limit of their own under a policy."`
}

// quotaOf says which quota a command is about.
type quotaOf struct {
	Key    string `arg:"" help:"Who is limited."`
	Policy string `default:"default" help:"The policy."`
}

type quotaGetCmd struct{ quotaOf }

func (c *quotaGetCmd) Run(console *console) error {
	console.config.ReadOnly = true
	return console.withLimiter(func(limiter *application.Limiter) error {
		quota, err := limiter.Quota(c.Policy, c.Key)
		if err != nil {
			return err
		}
		return console.printQuota(quota)
	})
}

type quotaSetCmd struct {
	quotaOf
	Limit string `arg:"" help:"Units per window of the policy, or unlimited; 0 blocks."`
}

func (c *quotaSetCmd) Run(console *console) error {
	limit, err := domain.ParseLimit(c.Limit)
	if err != nil {
		return err
	}
	quota := domain.Quota{Policy: c.Policy, Key: c.Key, Limit: limit}
	return console.withExisting(func(limiter *application.Limiter) error {
		if err := limiter.SetQuota(console.ctx, quota, change("quota set")); err != nil {
			return err
		}
		quota.Key = limiter.KeptAs(quota.Key)
		return console.printQuota(quota)
	})
}

type quotaUnsetCmd struct{ quotaOf }

func (c *quotaUnsetCmd) Run(console *console) error {
	return console.withExisting(func(limiter *application.Limiter) error {
		if err := limiter.UnsetQuota(console.ctx, c.Policy, c.Key, change("quota unset")); err != nil {
			return err
		}
		key := limiter.KeptAs(c.Key)
		return console.print(map[string]string{"policy": c.Policy, "key": key, "quota": "unset"},
			"policy %s: %s has no limit of its own\n", c.Policy, quote(key))
	})
}

type quotaListCmd struct {
	Policy string `default:"default" help:"The policy."`
}

// Run prints as it reads, with --json an object a line.
func (c *quotaListCmd) Run(console *console) error {
	console.config.ReadOnly = true
	return console.withLimiter(func(limiter *application.Limiter) error {
		for after := ""; ; {
			page, err := limiter.Quotas(console.ctx, c.Policy, after, application.MaxPage)
			if err != nil {
				return err
			}
			for _, quota := range page {
				if err := console.printQuota(quota); err != nil {
					return err
				}
				after = quota.Key
			}
			if len(page) < application.MaxPage {
				return nil
			}
		}
	})
}

func (c *console) printQuota(quota domain.Quota) error {
	return c.print(json.RawMessage(problem.AppendQuota(nil, quota)), "policy %s: %s has the limit %s\n",
		quota.Policy, quote(quota.Key), domain.FormatLimit(quota.Limit))
}
