package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testKeys(t *testing.T, store domain.Counter) {
	// apart checks that each pair of policy and key has a counter of its own.
	type pair struct{ policy, key string }
	apart := func(t *testing.T, pairs ...pair) {
		t.Helper()
		for i, p := range pairs {
			mustTake(t, store, take(int64(i+1), slot(p.policy, p.key, 1000, at)))
		}
		for i, p := range pairs {
			wantLook(t, store, slot(p.policy, p.key, 1000, at), tally(int64(i+1), 0))
		}
	}
	// keys checks the same of keys under one policy; # is replaced by what nobody else uses.
	keys := func(t *testing.T, keys ...string) {
		t.Helper()
		unique := draw("")
		pairs := make([]pair, len(keys))
		for i, key := range keys {
			pairs[i] = pair{"p", strings.ReplaceAll(key, "#", unique)}
		}
		apart(t, pairs...)
	}

	t.Run("case is kept", func(t *testing.T) {
		keys(t, "abc#", "ABC#", "Abc#", "ß#", "ẞ#", "ss#", "ı#", "i#", "I#", "K#", "\u212a#")
		key := draw("key")
		apart(t, pair{"p", key}, pair{"P", key})
	})
	t.Run("blanks are kept", func(t *testing.T) {
		keys(t, "a#", "a# ", "a#  ", " a#", " a# ", "a\u00a0#", "a #", "a#\u00a0", "a#\u2003")
	})
	t.Run("letters are not composed", func(t *testing.T) {
		keys(t, "\u00e9#", "e\u0301#", "e#", "\u1e9b\u0323#", "\ufb01#", "fi#")
	})
	t.Run("emoji and rare planes are kept", func(t *testing.T) {
		keys(t, "😀#", "😁#", "👍#", "👍🏽#", "𐐷#", "\U0010fffd#", "\ufffd#", "\ufeff#", "#\u200b", "#")
	})
	t.Run("quotes and patterns are letters", func(t *testing.T) {
		keys(t, "' OR 1=1--#", `"#`, `\#`, "`#", "%#", "_#", "*#", "?#", "[a]#", "{a}#", "a#", "$1#", "${a}#", ";#", "#/../x", "#//x", "#/x")
	})
	t.Run("keys are no numbers", func(t *testing.T) {
		keys(t, "0#", "00#", "1e3#", "1000#", "+1#", "1#", "1.0#", "-0#", "0x1#", "null#", "true#")
		random := fmt.Sprint(rand.Uint64())
		apart(t, pair{"p", random}, pair{"p", "0" + random}, pair{"p", random + ".0"}, pair{"p", "+" + random})
	})
	t.Run("a key may begin another", func(t *testing.T) {
		keys(t, "#", "#a", "#ab", "#:a", "#/a", "#.a", "# a")
	})
	t.Run("the longest keys are whole", func(t *testing.T) {
		unique := draw("")
		long := func(letter string) string {
			return strings.Repeat(letter, (domain.MaxKeyBytes-len(unique))/len(letter)-1) + unique
		}
		fill := func(key, last string) string {
			return key + strings.Repeat("x", domain.MaxKeyBytes-len(key)-len(last)) + last
		}
		apart(t, pair{"p", fill(unique, "a")}, pair{"p", fill(unique, "b")}, pair{"p", fill("a", unique)}, pair{"p", fill("b", unique)},
			pair{"p", long("x")}, pair{"p", long("😀")}, pair{"p", long("😁")}, pair{"p", fill(long("😀"), "a")})
		policy := strings.Repeat("p", 63)
		apart(t, pair{policy + "a", fill(unique, "c")}, pair{policy + "b", fill(unique, "c")})
	})
	t.Run("policy and key do not run into each other", func(t *testing.T) {
		for _, joint := range []string{":", "", ".", "-", "_", "/", "|", " ", "::", "\\", ","} {
			b, c := draw("b"), draw("c")
			apart(t, pair{"a", b + joint + c}, pair{"a" + joint + b, c}, pair{b, "a" + joint + c})
		}
	})
	t.Run("key and schedule do not run into each other", func(t *testing.T) {
		for _, joint := range []string{":", "", ".", "-", "_", "/", "|", " "} {
			key := draw("key")
			short, long := slot("p", key, 10, at), slot("p", key+joint+"fixed", 10, at)
			short.Schedule, long.Schedule = "fixed"+joint+"1m", "1m"
			mustTake(t, store, take(1, short))
			wantLook(t, store, long, tally(0, 0))
		}
	})
}
