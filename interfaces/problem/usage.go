package problem

import (
	"strconv"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// AppendUsage appends usage as JSON. Its times are on the clock of its zone.
func AppendUsage(b []byte, u *domain.Usage) []byte {
	b = AppendString(append(b, `{"by":`...), string(u.By))
	b = appendTime(append(b, `,"from":`...), u.From.In(u.Zone))
	b = appendTime(append(b, `,"to":`...), u.To.In(u.Zone))
	b = AppendString(append(b, `,"zone":`...), u.Zone.String())
	b = strconv.AppendBool(append(b, `,"partial":`...), u.Partial)
	b = appendList(append(b, `,"shadow":`...), u.Shadow, AppendString)
	b = strconv.AppendInt(append(b, `,"groups":`...), int64(u.Groups), 10)
	b = appendSums(append(b, ','), u.Allowed, u.Refused)
	return append(appendList(append(b, `,"usage":`...), u.Top, func(b []byte, g domain.UsageGroup) []byte {
		if u.By.IsTime() {
			b = appendTime(append(b, `{"start":`...), g.Window.Start.In(u.Zone))
			b = appendTime(append(b, `,"end":`...), g.Window.End.In(u.Zone))
		} else {
			b = append(append(append(b, `{"`...), u.By...), `":`...) // one of this program's words
			b = AppendString(b, g.Name)
		}
		return append(appendSums(append(b, ','), g.Allowed, g.Refused), '}')
	}), '}')
}

func appendSums(b []byte, allowed, refused int64) []byte {
	b = strconv.AppendInt(append(b, `"allowed":`...), allowed, 10)
	return strconv.AppendInt(append(b, `,"refused":`...), refused, 10)
}

// appendTime appends a time as RFC 3339.
func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), shortest), '"')
}

// shortest is RFC 3339 with what a time has of a second, to the millisecond.
const shortest = "2006-01-02T15:04:05.999Z07:00"
