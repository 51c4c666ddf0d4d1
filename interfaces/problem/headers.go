package problem

import (
	"strconv"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Headers passes to set the header fields of a decision, allowed or refused, each
// field once:
//
//   - X-RateLimit-Limit, -Remaining and -Reset (Unix seconds) of the policy
//     nearest to refusal; none if that has no limit
//   - RateLimit-Policy and RateLimit, an item for each policy that has a limit
//     (draft-ietf-httpapi-ratelimit-headers-11 sections 3 and 4)
//   - Cache-Control: no-store, since the answer is one client's at one moment
//
// Policies in shadow are left out: a client must not keep to what does not bind it.
// A hit that was allowed unchecked has no numbers to tell: it has X-RateLimit-Unchecked,
// and none of the first two.
// Retry-After comes with the problem of a refusal. The bytes passed to set are
// used again once it returns.
func Headers(d *domain.Decision, set func(name string, value []byte)) {
	var buffer [128]byte
	value := append(buffer[:0], "no-store"...)
	set("Cache-Control", value)
	if d.Unchecked {
		set("X-RateLimit-Unchecked", append(value[:0], "store-unavailable"...))
		return
	}
	if nearest := d.Nearest(); nearest != nil && nearest.Limit != domain.Unlimited {
		set("X-RateLimit-Limit", strconv.AppendInt(value[:0], nearest.Limit, 10))
		set("X-RateLimit-Remaining", strconv.AppendInt(value[:0], nearest.Remaining(), 10))
		set("X-RateLimit-Reset", strconv.AppendInt(value[:0], d.At.Unix()+nearest.ResetAfter(d), 10))
	}
	if list := appendItems(value[:0], d, appendQuota); len(list) > 0 {
		set("RateLimit-Policy", list)
		set("RateLimit", appendItems(value[:0], d, appendLeft))
	}
}

// appendItems writes a List (RFC 9651 section 4.1.1) of one Item for each policy
// that has a limit and is not in shadow. Names of policies need no escape in a String.
func appendItems(list []byte, d *domain.Decision, parameters func([]byte, *domain.Decision, *domain.PolicyDecision) []byte) []byte {
	for i := range d.Policies {
		p := &d.Policies[i]
		if p.Limit == domain.Unlimited || p.Shadow {
			continue
		}
		if len(list) > 0 {
			list = append(list, ", "...)
		}
		list = append(list, '"')
		list = append(list, p.Policy...)
		list = append(list, '"')
		list = parameters(list, d, p)
	}
	return list
}

func appendQuota(list []byte, _ *domain.Decision, p *domain.PolicyDecision) []byte {
	list = strconv.AppendInt(append(list, ";q="...), p.Limit, 10)
	return strconv.AppendInt(append(list, ";w="...), p.Window.Seconds(), 10)
}

func appendLeft(list []byte, d *domain.Decision, p *domain.PolicyDecision) []byte {
	list = strconv.AppendInt(append(list, ";r="...), p.Remaining(), 10)
	return strconv.AppendInt(append(list, ";t="...), p.ResetAfter(d), 10)
}
