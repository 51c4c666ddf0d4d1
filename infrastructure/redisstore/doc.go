// Package redisstore keeps counters in Redis or Valkey, 5 or newer, on one server or
// a cluster. [Store] implements [domain.Counter]; the audit log stays elsewhere, and
// [domain.Apart] joins the two.
//
// The windows of a key under a policy are fields of one hash, named
// prefix:{key}:policy, so that a reset is the removal of one name. A field is a
// schedule and a start in Unix seconds, its value used units, refused units and a
// deadline in Unix milliseconds:
//
//	HGETALL ratelimitlog:{alice}:login
//	"fixed 1m 1767225600"  "3 1 1767225723042"
//
// One script decides all takes of a client key, all or nothing over its policies,
// and writes what changed. The scripts of a batch go to the server together. The
// hashes of one client key are in one slot of a cluster.
//
// A hash expires by itself with the last of its windows, which lives from its first
// hit as long as if it had begun then. Later hits do not renew that. The deadlines
// are by the server's clock and only ever measure spans, so that clocks need not agree.
//
// The server should have maxmemory-policy noeviction, since one that evicts
// forgets counts, and replicas may lack the last hits when they take over: so many
// hits may pass twice then. Why it is done so is in docs/adr.
package redisstore
