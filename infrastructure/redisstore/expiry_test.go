package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// soleKey is the one name in the namespace.
func (n *namespace) soleKey(t testing.TB) string {
	t.Helper()
	keys := n.keys(t)
	if len(keys) != 1 {
		t.Fatalf("the keys are %q, want one", keys)
	}
	return keys[0]
}

func TestWindowsOfAnyLengthExpireAndNotTooEarly(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	now := time.Now()
	for _, c := range []struct {
		window string
		limit  int64
	}{
		{"fixed 1s", 120}, {"fixed 1s", 1e9}, {"fixed 1m", 3}, {"sliding 1h", 3}, {"fixed 8760h", 1}, {"fixed 87600h", 1},
		{"fixed 876000h", 1}, {"sliding 876000h", 1}, {"calendar month UTC", 5}, {"calendar year Asia/Tokyo", 5},
	} {
		key := fmt.Sprintf("%s %d", c.window, c.limit)
		slot := slotAt("p", key, c.limit, schedule(t, c.window), now)
		if !mustTake(t, store, 1, slot).Allowed {
			t.Errorf("%s: the first hit was refused", key)
		}
		ttl := n.ttl(t, n.prefix+":{"+key+"}:p")
		if longest := slot.Expires.Sub(slot.Window.Start); ttl <= 0 || ttl > longest || ttl < longest-time.Second {
			t.Errorf("%s: the time to live is %s, want %s", key, ttl, longest)
		}
		if fixed := strings.HasPrefix(c.window, "fixed"); fixed && ttl > 2*slot.Window.End.Sub(slot.Window.Start) {
			t.Errorf("%s: the time to live of %s is more than two windows", key, ttl)
		}
	}
}

func TestHitsDoNotRenewTheExpiry(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	for _, window := range []string{"fixed 1m", "sliding 1m", "calendar month UTC"} {
		slot := slotAt("p", window, 2, schedule(t, window), newYear) // the last hits are refused
		last := time.Duration(1<<63 - 1)
		for range 4 {
			mustTake(t, store, 1, slot)
			ttl := n.ttl(t, n.prefix+":{"+window+"}:p")
			if ttl <= 0 || ttl >= last {
				t.Errorf("%s: the time to live is %s after %s", window, ttl, last)
			}
			last = ttl
			time.Sleep(3 * time.Millisecond)
		}
	}
}

func TestASlowClientIsNeverRefused(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	for at := time.Duration(0); at < 10*time.Minute; at += 25 * time.Second {
		if slot := slotAt("p", "slow", 3, schedule(t, "1m"), newYear.Add(at)); !mustTake(t, store, 1, slot).Allowed {
			t.Errorf("the hit after %s was refused", at)
		}
	}
}

func TestAHashThatLostItsTimeToLiveGetsItBack(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	slot := slotAt("p", "k", 3, schedule(t, "1m"), newYear)
	mustTake(t, store, 3, slot)
	key := n.soleKey(t)
	persist := func() {
		t.Helper()
		if err := n.client.Persist(t.Context(), key).Err(); err != nil || n.ttl(t, key) != -1 {
			t.Fatalf("persist: %v, time to live %s", err, n.ttl(t, key))
		}
	}

	persist()
	if mustTake(t, store, 1, slot).Allowed {
		t.Error("a hit beyond the limit was allowed")
	}
	if ttl := n.ttl(t, key); ttl <= 0 || ttl > 2*time.Minute {
		t.Errorf("after a refused hit the time to live is %s", ttl)
	}

	persist()
	if next := slotAt("p", "k", 3, schedule(t, "1m"), newYear.Add(time.Minute)); !mustTake(t, store, 1, next).Allowed {
		t.Error("a hit in the next window was refused")
	}
	if ttl := n.ttl(t, key); ttl <= 0 || ttl > 2*time.Minute {
		t.Errorf("after a hit in the next window the time to live is %s", ttl)
	}
}

func TestALateHitOfAShortWindowIsCounted(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	slot := slotAt("p", "k", 3, schedule(t, "1s"), newYear.Add(950*time.Millisecond))
	mustTake(t, store, 1, slot)
	if got := mustTake(t, store, 1, slot).Tallies[0].Count; got != 2 {
		t.Errorf("the second hit counts %d", got)
	}
	if ttl := n.ttl(t, n.soleKey(t)); ttl < time.Millisecond || ttl > 2*time.Second {
		t.Errorf("the time to live is %s", ttl)
	}

	// A window that may be forgotten the moment it begins is no error either.
	slot.Key, slot.Expires = "gone", slot.Window.Start
	if !mustTake(t, store, 1, slot).Allowed {
		t.Error("refused")
	}
	slot.Key, slot.Expires = "never", time.Time{}
	if !mustTake(t, store, 1, slot).Allowed {
		t.Error("refused")
	}
}

// Every key there is has a time to live, and nothing is left once the windows are
// over, whether or not anybody still knows their policies.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	store := n.open(t)
	fixed, sliding, month := schedule(t, "fixed 1s"), schedule(t, "sliding 1s"), schedule(t, "calendar month")
	var takes []domain.Take
	now := time.Now()
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		takes = append(takes, domain.Take{Cost: 1, Slots: []domain.Slot{
			slotAt("fixed", key, 1, fixed, now), slotAt("sliding", key, 1, sliding, now), slotAt("quota", key, 1, month, now),
		}})
	}
	for range 2 { // allowed, then refused
		if _, err := store.Take(t.Context(), takes); err != nil {
			t.Fatal(err)
		}
	}
	keys := n.keys(t)
	if len(keys) != 3000 {
		t.Errorf("there are %d keys", len(keys))
	}
	pipe := n.client.Pipeline()
	for _, key := range keys {
		pipe.PTTL(t.Context(), key)
	}
	ttls, err := pipe.Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, cmd := range ttls {
		if ttl := cmd.(interface{ Val() time.Duration }).Val(); ttl <= 0 {
			t.Errorf("the time to live of %s is %s", keys[i], ttl)
		}
	}
	time.Sleep(2100 * time.Millisecond)
	keys = n.keys(t)
	for _, key := range keys {
		if !strings.HasSuffix(key, ":quota") {
			t.Errorf("%s is left", key)
		}
	}
	if len(keys) != 1000 {
		t.Errorf("%d keys are left", len(keys))
	}
}

func TestOldWindowsDoNotPileUpInAHash(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	long := slotAt("p", "k", 9, schedule(t, "1h"), newYear)
	mustTake(t, store, 1, long)
	for i := range 5 {
		short := slotAt("p", "k", 9, schedule(t, "1s"), newYear.Add(time.Duration(i)*time.Second))
		short.Expires = short.Window.Start.Add(5 * time.Millisecond)
		mustTake(t, store, 1, short)
		time.Sleep(10 * time.Millisecond)
	}
	fields, err := n.client.HKeys(t.Context(), n.soleKey(t)).Result()
	slices.Sort(fields)
	if want := []string{"fixed 1h 1767225600", "fixed 1s 1767225604"}; err != nil || !slices.Equal(fields, want) {
		t.Errorf("the fields are %q, want %q; %v", fields, want, err)
	}
	if got := mustLook(t, store, long); got.Count != 1 {
		t.Errorf("the long window holds %+v", got)
	}
	if ttl := n.ttl(t, n.soleKey(t)); ttl < time.Hour || ttl > 2*time.Hour {
		t.Errorf("the time to live is %s", ttl)
	}
}

// A reset is exact, and leaves alone what is not the store's.
func TestResetKnowsNoPatterns(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	foreign := n.prefix + "-foreign:{user1}:p"
	n.client.Set(t.Context(), foreign, "1", time.Minute)
	defer n.client.Del(context.Background(), foreign)
	keys := []string{"user_1", "userA1", "a*", "50%", "user1", "user10", "a?", "[a]", "*", `\`, "{user1}", "user1}"}
	slot := func(key string) domain.Slot { return slotAt("p", key, 9, schedule(t, "1m"), newYear) }
	for _, key := range keys {
		mustTake(t, store, 1, slot(key))
	}
	for i, reset := range keys {
		if err := store.Reset(t.Context(), "p", reset); err != nil {
			t.Fatal(err)
		}
		for j, key := range keys {
			want := int64(1)
			if j <= i {
				want = 0
			}
			if got := mustLook(t, store, slot(key)).Count; got != want {
				t.Errorf("after the reset of %q %q counts %d, want %d", reset, key, got, want)
			}
		}
	}
	if left := n.keys(t); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if n.client.Exists(t.Context(), foreign).Val() != 1 {
		t.Error("a key of somebody else is gone")
	}
}
