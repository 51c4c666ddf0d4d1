package domain

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration of whole units: "90s", "1h30m", "2d". The units
// are d (24 hours), h, m and s, each at most once and in this order.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("a duration is missing")
	}
	var total int64
	rest, order := text, "dhms"
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return 0, fmt.Errorf("%q is not a duration like 90s, 15m, 1h30m or 2d", text)
		}
		value, err := strconv.ParseInt(rest[:n], 10, 64)
		unit := strings.IndexByte(order, rest[n])
		if unit < 0 {
			return 0, fmt.Errorf("%q is not a duration like 90s, 15m, 1h30m or 2d", text)
		}
		seconds := secondsPer[rest[n]]
		if err != nil || value > (math.MaxInt64/int64(time.Second)-total)/seconds {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total += value * seconds
		rest, order = rest[n+1:], order[unit+1:]
	}
	return time.Duration(total) * time.Second, nil
}

// FormatDuration writes whole seconds so that [ParseDuration] reads them back:
// "1m", "1h30m", "2d". A fraction of a second is dropped.
func FormatDuration(d time.Duration) string {
	left := int64(d / time.Second)
	if left == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range []byte("dhms") {
		if n := left / secondsPer[unit]; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteByte(unit)
			left -= n * secondsPer[unit]
		}
	}
	return b.String()
}

var secondsPer = map[byte]int64{'d': 86400, 'h': 3600, 'm': 60, 's': 1}
