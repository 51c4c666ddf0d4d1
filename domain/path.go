package domain

import (
	"fmt"
	"slices"
	"strings"
)

// Servers differ in what they take for the same path. To a limiter every reading
// counts: a request that one server would route to /login must not get around the
// limit of /login because another would not. So a path has several readings, each
// the segments that some kind of server would see, and the routes of all of them
// apply. Nearly every path has one.
//
// All readings leave out the query, empty segments and a slash at the end, and are
// in lower case, their percent escapes decoded until none is left.

// maxReadPath is how many bytes a path may have that can be read in several ways.
const maxReadPath = 2048

// reading is a path as a server may see it.
type reading struct {
	path     string // the segments, each with a slash before it; "/" if there are none
	segments []string
}

// manners are in what readings differ. The zero value is that of a server that takes
// a path as it is written.
type manners struct {
	slashes    bool // "%2F" divides segments like "/"
	backslash  bool // "\" does
	dots       bool // "." and ".." are resolved
	parameters bool // ";v=1" is no part of a segment
}

// readings are the ways in which a path can be read, the most lenient first. A path
// that is longer than maxReadPath and can be read in several ways is an *InvalidError.
func readings(path string) ([]reading, error) {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	decoded := unescape(path)
	most := manners{
		slashes:   len(decoded) != len(path) && strings.Count(decoded, "/") != strings.Count(path, "/"),
		backslash: strings.Contains(decoded, `\`), dots: hasDots(decoded), parameters: strings.Contains(decoded, ";"),
	}
	if most == (manners{}) {
		return []reading{most.read(path)}, nil
	}
	if len(path) > maxReadPath {
		return nil, &InvalidError{"path", fmt.Sprintf("is %d bytes long and can be read in several ways; such paths may have %d", len(path), maxReadPath)}
	}
	var found []reading
	for i := range 16 {
		m := manners{
			slashes: most.slashes && i&1 == 0, backslash: most.backslash && i&2 == 0,
			dots: most.dots && i&4 == 0, parameters: most.parameters && i&8 == 0,
		}
		r := m.read(path)
		if !slices.ContainsFunc(found, func(other reading) bool { return slices.Equal(other.segments, r.segments) }) {
			found = append(found, r)
		}
	}
	return found, nil
}

// hasDots reports whether some server may see a segment that is "." or "..".
func hasDots(path string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(`/\;`, r) }),
		func(part string) bool { return part == "." || part == ".." })
}

// read is a path in the manner of m.
func (m manners) read(path string) reading {
	if m.slashes {
		path = unescape(path)
	}
	divides := func(r rune) bool { return r == '/' || m.backslash && r == '\\' }
	var r reading
	for _, segment := range strings.FieldsFunc(path, divides) {
		segment = strings.ToLower(unescape(segment))
		if m.backslash { // escaped ones divide too
			for _, part := range strings.FieldsFunc(segment, func(r rune) bool { return r == '\\' }) {
				r.segments = m.add(r.segments, part)
			}
			continue
		}
		r.segments = m.add(r.segments, segment)
	}
	for i, segment := range r.segments {
		r.segments[i] = strings.ReplaceAll(segment, "/", "%2f") // it does not divide here
	}
	r.path = "/" + strings.Join(r.segments, "/")
	return r
}

func (m manners) add(segments []string, segment string) []string {
	if m.parameters {
		segment, _, _ = strings.Cut(segment, ";")
	}
	switch {
	case segment == "" || m.dots && segment == ".":
		return segments
	case m.dots && segment == "..":
		return segments[:max(len(segments)-1, 0)]
	}
	return append(segments, segment)
}

// isCanonical knows the usual paths that need no work: segments of lower case
// letters, digits, "-" and "_", without a slash at the end.
func isCanonical(path string) bool {
	if path == "/" {
		return true
	}
	before := byte('a') // anything but a slash
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
