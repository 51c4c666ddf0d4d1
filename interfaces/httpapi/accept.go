package httpapi

import (
	"strconv"
	"strings"
)

// The media types of calls that are streamed: an object a line, and CSV.
const (
	mimeLines = "application/x-ndjson"
	mimeCSV   = "text/csv"
)

// preferred is which of the media types that are offered an Accept header asks for
// (RFC 9110 section 12.5.1), or "" if it takes none of them. Among those that it likes
// best it is the one that it names most exactly, then the first. Parameters but for the
// weight are not looked at, nor are ranges that are not well-formed.
func preferred(accept string, offers ...string) string {
	if strings.Trim(accept, " \t,") == "" {
		return offers[0]
	}
	best, bestWeight, bestExact := "", 0.0, 0
	for _, offer := range offers {
		weight, exact := weigh(accept, offer)
		if weight > bestWeight || weight == bestWeight && weight > 0 && exact > bestExact {
			best, bestWeight, bestExact = offer, weight, exact
		}
	}
	return best
}

// weigh is the weight of the range that names the media type most exactly, and how
// exactly it does: 3 by name, 2 by its type, 1 as one of all, 0 not.
func weigh(accept, offer string) (weight float64, exact int) {
	kind, _, _ := strings.Cut(offer, "/")
	for part := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		how := 0
		switch strings.ToLower(strings.Trim(name, " \t")) {
		case offer:
			how = 3
		case kind + "/*":
			how = 2
		case "*/*":
			how = 1
		}
		if w, ok := weightOf(parameters); ok && how > exact {
			weight, exact = w, how
		}
	}
	return weight, exact
}

// weightOf reads the weight among a range's parameters: 0 to 1, 1 if there is none.
func weightOf(parameters string) (float64, bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		if strings.EqualFold(name, "q") {
			weight, err := strconv.ParseFloat(value, 64)
			return weight, err == nil && weight >= 0 && weight <= 1
		}
	}
	return 1, true
}
