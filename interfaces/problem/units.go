package problem

import (
	"strconv"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Units is a limit, or what is left of one, in JSON: a number, or the string
// "unlimited".
type Units int64

// MarshalJSON implements json.Marshaler.
func (u Units) MarshalJSON() ([]byte, error) {
	if u == domain.Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return strconv.AppendInt(nil, int64(u), 10), nil
}
