package domain

import "strings"

// CanonicalPath is the one spelling of a request's path that routes are compared
// with. Everything that some server takes for the same path comes to the same
// spelling: without query, fragment and parameters (";v=1"), percent escapes
// decoded until none is left, "\" as "/", no empty and no "." segments, ".."
// resolved, no slash at the end, and lower case.
func CanonicalPath(path string) string {
	if isCanonical(path) {
		return path
	}
	path = beforeQuery(unescape(beforeQuery(path)))
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(len(segments)-1, 0)]
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// isCanonical knows the usual paths that need no work: segments of lower case
// letters, digits, "-" and "_", without a slash at the end.
func isCanonical(path string) bool {
	if path == "/" {
		return true
	}
	before := byte('a')
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			if i == 0 {
				return false
			}
		case c == '/' && before != '/':
		default:
			return false
		}
		before = path[i]
	}
	return path != "" && before != '/'
}

func beforeQuery(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		return path[:end]
	}
	return path
}

// unescape decodes percent escapes, and those that this makes, until none is left.
// It takes one pass, because clients choose how deep the escapes are.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	decoded := make([]byte, 0, len(s))
	for i := range len(s) {
		decoded = append(decoded, s[i])
		for n := len(decoded); n >= 3 && decoded[n-3] == '%'; n -= 2 {
			high, low := unhex(decoded[n-2]), unhex(decoded[n-1])
			if high < 0 || low < 0 {
				break
			}
			decoded = append(decoded[:n-3], byte(high<<4|low))
		}
	}
	return string(decoded)
}

// unhex is the value of a hexadecimal digit, -1 if c is none.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
