package domain

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Gapless is implemented by logs that give IDs without gaps: what is missing between 1
// and the last one has been removed.
type Gapless interface {
	// LastID is the largest ID that was ever given, also if its call has been removed.
	LastID(ctx context.Context) (int64, error)
}

// Chained is implemented by logs whose calls can have a hash that continues that of the
// call before it in the same chain, see [Call.Chain] and [Call.ChainName].
type Chained interface {
	// ChainHeads are the hashes of the last call of each chain, by its name. It is empty if
	// calls are not chained; else the chain "" is in it, maybe with its start.
	ChainHeads(ctx context.Context) (map[string]string, error)
}

// Derived is implemented by logs that answer from what they have derived of their calls,
// and can tell where that does not fit to them.
type Derived interface {
	// CheckDerived tells found of each place where it does not: the table, and the policy
	// whose calls these are. It goes through all calls.
	CheckDerived(ctx context.Context, found func(table, policy, detail string)) error
}

// ChainName is the name of the chain that the call is in: calls that age are in that of
// their policy, so that what is removed of it is its beginning, and all others in one of
// their own, which is named "".
func (c *Call) ChainName() string {
	if c.Kind.Ages() {
		return c.Policy
	}
	return ""
}

// ChainStart is what the first call of a chain continues.
func ChainStart(name string) string {
	sum := sha256.Sum256([]byte("ratelimitlog chain\x00" + name))
	return hex.EncodeToString(sum[:])
}

// Chain is the hash of the call as the one after the call with the hash before: SHA-256
// in hexadecimal over all that the call tells but its ID and its own hash. Whoever
// changes, removes or adds a call must change the hashes of all later ones of the chain.
func (c *Call) Chain(before string) string {
	b := make([]byte, 0, 512)
	text := func(s string) { // with its length, so that no two lists of texts are one
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	flag := func(set bool) {
		if set {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	text(before)
	text(string(c.Kind))
	number(c.At.UnixMilli())
	text(c.Policy)
	text(c.Key)
	number(c.Cost)
	number(c.Hits)
	flag(c.Allowed)
	flag(c.Shadow)
	number(c.Count)
	number(c.Refused)
	flag(c.Kind.HasLimit())
	if c.Kind.HasLimit() {
		number(c.Limit)
	}
	flag(c.Kind.InWindow())
	if c.Kind.InWindow() {
		number(c.WindowStart.Unix())
	}
	text(c.Schedule)
	text(c.Coverage)
	text(c.Method)
	text(c.Path)
	text(c.RequestID)
	text(c.Actor)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
