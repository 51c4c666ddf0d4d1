package redisstore

import (
	"strconv"
	"strings"
	"time"
)

// escaper keeps braces out of the part of a name that a cluster hashes. The percent
// sign is escaped so that no two keys become one.
var escaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// hash is the name of the hash that holds the windows of key under policy. All
// names of one key share the part in braces, which a cluster hashes, so that they
// are on one node; no two pairs share a name, because prefix and the escaped key
// have no braces.
func (s *Store) hash(policy, key string) string {
	return s.prefix + ":{" + escaper.Replace(key) + "}:" + policy
}

// field is the name of a window in its hash. It is the start in Unix seconds that
// tells the windows of one schedule apart.
func field(schedule string, start time.Time) string {
	return schedule + " " + strconv.FormatInt(start.Unix(), 10)
}
