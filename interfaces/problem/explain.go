package problem

import (
	"strconv"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// AppendExplanation appends an explanation as JSON, its words included. Members of which
// nothing is known are left out.
func AppendExplanation(b []byte, e *domain.Explanation) []byte {
	b = AppendString(append(b, `{"text":`...), strings.Join(Words(e), "\n"))
	b = AppendString(append(b, `,"key":`...), e.Key)
	b = AppendString(append(b, `,"policy":`...), e.Policy)
	b = appendTime(append(b, `,"at":`...), e.At)
	if e.Minute {
		b = append(b, `,"minute":true`...)
	}
	b = appendTime(append(b, `,"as_of":`...), e.AsOf)
	for _, hit := range []struct {
		name string
		call *domain.Call
	}{{"hit", e.Hit}, {"refused_before", e.RefusedBefore}, {"refused_after", e.RefusedAfter}} {
		if hit.call != nil {
			b = append(append(append(b, `,"`...), hit.name...), `":`...)
			b = appendHit(b, *hit.call)
		}
	}
	if len(e.RefusedToo) > 0 {
		b = appendList(append(b, `,"refused_too":`...), e.RefusedToo, AppendString)
	}
	b = appendRules(append(b, `,"in_force":{`...), e.Limit, e.Schedule, e.Shadow, e.LimitOf)
	b = AppendString(append(b, `,"known_by":`...), string(e.LimitFrom))
	if e.PolicySet != nil {
		b = AppendString(append(b, `,"revision":`...), e.PolicySet.RequestID)
		b = appendChange(append(b, `,"policy_set":`...), *e.PolicySet)
	}
	if e.QuotaSet != nil {
		b = appendChange(append(b, `,"quota_set":`...), *e.QuotaSet)
	}
	b = strconv.AppendBool(append(b, `,"changed_since":`...), e.Changed())
	b = appendTime(append(b, `},"window_start":`...), e.Window.Start)
	b = appendTime(append(b, `,"window_end":`...), e.Window.End)
	b = strconv.AppendBool(append(b, `,"known":`...), e.TallyFrom != domain.FromNothing)
	if e.TallyFrom != domain.FromNothing {
		b = AppendString(append(b, `,"known_by":`...), string(e.TallyFrom))
		b = appendTally(append(b, ','), e.Tally)
		b = strconv.AppendBool(append(b, `,"would_pass":`...), e.HadRoom() || e.Shadow)
	}
	b = strconv.AppendBool(append(b, `,"partial":`...), e.Partial)
	b = appendList(append(b, `,"spent":`...), e.Spent, appendHit)
	if e.SpentOf > 0 {
		b = strconv.AppendInt(append(b, `,"spent_paths_of":`...), int64(e.SpentOf), 10)
	}
	b = strconv.AppendInt(append(b, `,"spent_paths":`...), int64(e.SpentPaths), 10)
	b = appendList(append(b, `,"spent_by_path":`...), e.SpentByPath, func(b []byte, g domain.UsageGroup) []byte {
		b = AppendString(append(b, `{"path":`...), g.Name)
		return append(strconv.AppendInt(append(b, `,"allowed":`...), g.Allowed, 10), '}')
	})
	b = appendList(append(b, `,"resets":`...), e.Resets, appendChange)
	return append(appendNow(b, e), '}')
}

// appendNow appends what holds now, and when the key passes.
func appendNow(b []byte, e *domain.Explanation) []byte {
	if e.Now == nil {
		return b
	}
	b = appendTime(append(b, `,"now":{"at":`...), e.NowAt)
	b = appendRules(append(b, ','), e.Now.Limit, e.Now.Schedule, e.Now.Shadow, e.NowOf)
	b = AppendString(append(b, `,"known_by":`...), string(e.NowFrom))
	b = appendTime(append(b, `,"window_start":`...), e.Now.Window.Start)
	b = appendTime(append(b, `,"window_end":`...), e.Now.Window.End)
	b = append(appendTally(append(b, ','), e.Now.Tally), '}')
	b = strconv.AppendInt(append(b, `,"cost":`...), e.Cost, 10)
	if at := e.PassesAt(); !at.IsZero() {
		b = strconv.AppendInt(append(b, `,"retry_after":`...), e.RetryAfter, 10)
		b = appendTime(append(b, `,"passes_at":`...), at)
	}
	return b
}

func appendRules(b []byte, limit int64, schedule domain.Schedule, shadow bool, of domain.LimitOf) []byte {
	b = AppendUnits(append(b, `"limit":`...), limit)
	b = AppendString(append(b, `,"limit_of":`...), string(of))
	b = AppendString(append(b, `,"window":`...), schedule.String())
	return appendShadow(b, shadow)
}

func appendTally(b []byte, t domain.Tally) []byte {
	b = strconv.AppendInt(append(b, `"count":`...), t.Count, 10)
	b = strconv.AppendInt(append(b, `,"refused":`...), t.Refused, 10)
	b = strconv.AppendInt(append(b, `,"used":`...), t.Used(), 10)
	b = strconv.AppendInt(append(b, `,"previous_used":`...), t.Previous, 10)
	return strconv.AppendInt(append(b, `,"carry":`...), t.Carry, 10)
}

// appendHit appends what an explanation tells of a hit.
func appendHit(b []byte, c domain.Call) []byte {
	b = appendCallTime(b, &c)
	b = strconv.AppendBool(append(b, `,"allowed":`...), c.Allowed)
	b = strconv.AppendInt(append(b, `,"cost":`...), c.Cost, 10)
	b = strconv.AppendInt(append(b, `,"hits":`...), c.Hits, 10)
	return appendOrigin(b, &c)
}

// appendChange appends what an explanation tells of what an administrator did.
func appendChange(b []byte, c domain.Call) []byte {
	b = appendCallTime(b, &c)
	if c.Actor != "" {
		b = AppendString(append(b, `,"actor":`...), c.Actor)
	}
	return appendOrigin(b, &c)
}

func appendCallTime(b []byte, c *domain.Call) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), c.ID, 10)
	return append(c.At.UTC().AppendFormat(append(b, `,"called_at":"`...), "2006-01-02T15:04:05.000Z07:00"), '"')
}

func appendOrigin(b []byte, c *domain.Call) []byte {
	b = AppendString(append(b, `,"method":`...), c.Method)
	b = AppendString(append(b, `,"path":`...), c.Path)
	return append(AppendString(append(b, `,"request_id":`...), c.RequestID), '}')
}
