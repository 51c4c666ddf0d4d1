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
	for again := true; again; {
		if end := strings.IndexAny(path, "?#"); end >= 0 {
			path = path[:end]
		}
		decoded := unescape(path)
		path, again = decoded, decoded != path
	}
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

// unescape decodes the percent escapes that are well-formed and leaves the others.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	decoded := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0 {
			decoded = append(decoded, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
			continue
		}
		decoded = append(decoded, s[i])
	}
	return string(decoded)
}

func unhex(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
