package problem

import (
	"encoding/json"
	"strconv"

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
	if len(p.Errors) > 0 {
		b = appendList(append(b, `,"errors":`...), p.Errors, appendInvalid)
	}
	return append(b, '}')
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

// Units is a limit, or what is left of one, in JSON: a number, or the string
// "unlimited".
type Units int64

// MarshalJSON implements json.Marshaler.
func (u Units) MarshalJSON() ([]byte, error) { return AppendUnits(nil, int64(u)), nil }

// AppendUnits appends a limit, or what is left of one, as JSON. See [Units].
func AppendUnits(b []byte, units int64) []byte {
	if units == domain.Unlimited {
		return append(b, `"unlimited"`...)
	}
	return strconv.AppendInt(b, units, 10)
}
