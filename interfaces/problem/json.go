package problem

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// AppendJSON appends the problem as JSON. By hand, because under a flood refusals
// are nearly all that the server writes.
func (p *Problem) AppendJSON(b []byte) []byte {
	b = append(append(b, `{"type":"`...), p.Type...) // type and title are this package's own, free of escapes
	b = append(append(b, `","title":"`...), p.Title...)
	b = strconv.AppendInt(append(b, `","status":`...), int64(p.Status), 10)
	if p.Detail != "" {
		b = AppendString(append(b, `,"detail":`...), p.Detail)
	}
	if p.Instance != "" {
		b = AppendString(append(b, `,"instance":`...), p.Instance)
	}
	if e := p.Exceeded; e != nil {
		b = AppendString(append(b, `,"policy":`...), e.Policy)
		b = AppendUnits(append(b, `,"limit":`...), e.Limit)
		b = strconv.AppendInt(append(b, `,"window_seconds":`...), e.Window.Seconds(), 10)
		b = strconv.AppendInt(append(b, `,"retry_after":`...), e.RetryAfter, 10)
		b = appendList(append(b, `,"violated-policies":`...), e.Violated, AppendString)
	}
	if p.Decision != nil {
		b = append(b, `,"allowed":false,`...)
		b = appendDecided(b, p.Decision)
	}
	if len(p.Errors) > 0 {
		b = appendList(append(b, `,"errors":`...), p.Errors, appendInvalid)
	}
	return append(b, '}')
}

// AppendDecision appends a decision as JSON.
func AppendDecision(b []byte, d *domain.Decision) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"retry_after":`...), d.RetryAfter(), 10)
	return append(appendDecided(append(appendUnchecked(b, d), ','), d), '}')
}

// appendDecided appends the members that a decision and its refusal share.
func appendDecided(b []byte, d *domain.Decision) []byte {
	b = AppendString(append(b, `"key":`...), d.Key)
	b = strconv.AppendInt(append(b, `,"cost":`...), d.Cost, 10)
	if d.Unchecked {
		return appendList(append(b, `,"policies":`...), d.Policies, appendName)
	}
	return appendList(append(b, `,"policies":`...), d.Policies, appendCounter)
}

// appendUnchecked says that a decision was made without the store, where it was.
func appendUnchecked(b []byte, d *domain.Decision) []byte {
	if d.Unchecked {
		b = append(b, `,"unchecked":true`...)
	}
	return b
}

// appendName appends what can be said of a policy that was not checked.
func appendName(b []byte, p domain.PolicyDecision) []byte {
	b = AppendString(append(b, `{"policy":`...), p.Policy)
	return append(appendShadow(append(b, `,"allowed":true`...), p.Shadow), '}')
}

// AppendPong appends the answer to a ping that was allowed. Of several policies it
// shows the one nearest to refusal.
func AppendPong(b []byte, d *domain.Decision) []byte {
	p := d.Nearest()
	if p == nil { // all are in shadow
		p = &d.Policies[0]
	}
	b = AppendString(append(b, `{"message":"pong","key":`...), d.Key)
	b = AppendString(append(b, `,"policy":`...), p.Policy)
	if d.Unchecked {
		return append(appendUnchecked(b, d), '}')
	}
	b = AppendUnits(append(b, `,"limit":`...), p.Limit)
	b = strconv.AppendInt(append(b, `,"count":`...), p.Count, 10)
	b = AppendUnits(append(b, `,"remaining":`...), p.Remaining())
	b = p.Window.End.AppendFormat(append(b, `,"reset_at":"`...), time.RFC3339)
	return append(b, `"}`...)
}

// AppendCounters appends the counters of a key, which a look shows, as JSON.
func AppendCounters(b []byte, d *domain.Decision) []byte {
	b = AppendString(append(b, `{"key":`...), d.Key)
	return append(appendList(append(b, `,"counters":`...), d.Policies, appendCounter), '}')
}

func appendCounter(b []byte, p domain.PolicyDecision) []byte {
	b = AppendString(append(b, `{"policy":`...), p.Policy)
	b = strconv.AppendBool(append(b, `,"allowed":`...), p.Allowed())
	return appendNumbers(appendShadow(b, p.Shadow), &p)
}

// AppendStatus appends the counter that a look at one policy shows.
func AppendStatus(b []byte, d *domain.Decision) []byte {
	p := &d.Policies[0]
	b = AppendString(append(b, `{"key":`...), d.Key)
	b = AppendString(append(b, `,"policy":`...), p.Policy)
	return appendNumbers(appendShadow(b, p.Shadow), p)
}

// appendShadow says that a policy is in shadow, where it is.
func appendShadow(b []byte, shadow bool) []byte {
	if shadow {
		b = append(b, `,"shadow":true`...)
	}
	return b
}

// AppendPolicy appends a policy as JSON.
func AppendPolicy(b []byte, p domain.Policy) []byte {
	b = AppendString(append(b, `{"name":`...), p.Name)
	b = AppendUnits(append(b, `,"limit":`...), p.Limit)
	b = AppendString(append(b, `,"window":`...), p.Schedule.String())
	b = appendShadow(b, p.Shadow)
	if p.FailOpen {
		b = append(b, `,"on_store_error":"open"`...)
	}
	return append(appendAudit(b, p.Audit), '}')
}

// appendAudit says what the log has of a policy's hits, where that is not all for ever.
func appendAudit(b []byte, a domain.Audit) []byte {
	if a == (domain.Audit{}) {
		return b
	}
	b = AppendString(append(b, `,"audit":{"log":`...), a.Log.String())
	if a.Sample != 0 {
		b = strconv.AppendFloat(append(b, `,"sample":`...), a.Sample, 'f', -1, 64)
	}
	if a.Keep != 0 {
		b = AppendString(append(b, `,"keep":`...), domain.FormatDuration(a.Keep))
	}
	if a.MaxRows != 0 {
		b = strconv.AppendInt(append(b, `,"max_rows":`...), a.MaxRows, 10)
	}
	return append(b, '}')
}

// AppendPolicies appends the policies of a revision of the rules as JSON.
func AppendPolicies(b []byte, revision string, policies []domain.Policy) []byte {
	b = AppendString(append(b, `{"revision":`...), revision)
	return append(appendList(append(b, `,"policies":`...), policies, AppendPolicy), '}')
}

// AppendQuota appends a quota as JSON.
func AppendQuota(b []byte, q domain.Quota) []byte {
	b = AppendString(append(b, `{"policy":`...), q.Policy)
	b = AppendString(append(b, `,"key":`...), q.Key)
	return append(AppendUnits(append(b, `,"limit":`...), q.Limit), '}')
}

// AppendQuotas appends a page of quotas as JSON, and where the next one begins if
// next is not empty.
func AppendQuotas(b []byte, quotas []domain.Quota, next string) []byte {
	b = appendList(append(b, `{"quotas":`...), quotas, AppendQuota)
	if next != "" {
		b = AppendString(append(b, `,"next":`...), next)
	}
	return append(b, '}')
}

// appendNumbers appends the members that end every counter.
func appendNumbers(b []byte, p *domain.PolicyDecision) []byte {
	b = AppendUnits(append(b, `,"limit":`...), p.Limit)
	b = strconv.AppendInt(append(b, `,"count":`...), p.Count, 10)
	b = strconv.AppendInt(append(b, `,"refused":`...), p.Refused, 10)
	b = AppendUnits(append(b, `,"remaining":`...), p.Remaining())
	b = p.Window.Start.AppendFormat(append(b, `,"window_start":"`...), time.RFC3339)
	b = p.Window.End.AppendFormat(append(b, `","window_end":"`...), time.RFC3339)
	return append(b, `"}`...)
}

func appendInvalid(b []byte, i Invalid) []byte {
	b = AppendString(append(b, `{"detail":`...), i.Detail)
	if i.Pointer != "" {
		b = AppendString(append(b, `,"pointer":`...), i.Pointer)
	}
	if i.Parameter != "" {
		b = AppendString(append(b, `,"parameter":`...), i.Parameter)
	}
	return append(b, '}')
}

func appendList[T any](b []byte, list []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, list[i])
	}
	return append(b, ']')
}

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // which a string never is the cause of
				quoted = []byte(`""`)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AppendUnits appends a limit, or what is left of one, as JSON: a number, or the
// string "unlimited".
func AppendUnits(b []byte, units int64) []byte {
	if units == domain.Unlimited {
		return append(b, `"unlimited"`...)
	}
	return strconv.AppendInt(b, units, 10)
}
