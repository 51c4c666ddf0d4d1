package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/domain/storetest"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
)

func TestConformance(t *testing.T) {
	store := memstore.New(memstore.Options{})
	storetest.Run(t, func(*testing.T) storetest.Store { return store })
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) storetest.Store { return memstore.New(memstore.Options{}) })
}

var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func take(key string, start time.Time) domain.Take {
	return domain.Take{Cost: 1, Slots: []domain.Slot{{
		Policy: "p", Key: key, Limit: 1, Window: domain.Window{Start: start, End: start.Add(time.Minute)}, Expires: start.Add(2 * time.Minute),
	}}}
}

// Whoever makes many keys must not make the store forget that he is blocked.
func TestAFullStoreForgetsNobodyAndCountsOn(t *testing.T) {
	store := memstore.New(memstore.Options{MaxWindows: 100})
	mustTake := func(allowed bool, takes ...domain.Take) {
		t.Helper()
		taken, err := store.Take(t.Context(), takes)
		if err != nil || taken[len(taken)-1].Allowed != allowed {
			t.Errorf("taken %+v, %v; want allowed %v", taken, err, allowed)
		}
	}
	mustTake(true, take("blocked", at))
	mustTake(false, take("blocked", at))
	for i := range 99 {
		mustTake(true, take(fmt.Sprint(i), at))
	}
	later := at.Add(time.Minute)
	for i := range 1000 {
		if _, err := store.Take(t.Context(), []domain.Take{take("0", at), take(fmt.Sprint("new ", i), later)}); !errors.Is(err, memstore.ErrFull) {
			t.Fatalf("beyond the bound: %v", err)
		}
	}
	mustTake(false, take("blocked", at))
	looked, err := store.Look(t.Context(), []domain.Slot{take("blocked", at).Slots[0], take("0", at).Slots[0], take("new 1", later).Slots[0]})
	if err != nil || looked[0].Count != 3 || looked[1].Count != 1 || looked[2].Count != 0 {
		t.Errorf("looked %+v, %v", looked, err)
	}
	if n, err := store.Sweep(t.Context(), at.Add(2*time.Minute), 10); n != 10 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	for i := range 10 {
		mustTake(true, take(fmt.Sprint("new ", i), later))
	}
	if _, err := store.Take(t.Context(), []domain.Take{take("one more", later)}); !errors.Is(err, memstore.ErrFull) {
		t.Errorf("beyond the bound again: %v", err)
	}
}

func TestTheLogKeepsTheNewestCalls(t *testing.T) {
	const most = 50
	store := memstore.New(memstore.Options{MaxCalls: most})
	for i := range 1000 {
		calls := make([]domain.Call, 1+i%7)
		for j := range calls {
			calls[j] = domain.Call{Kind: domain.CallHit, Key: fmt.Sprint(i)}
		}
		if err := store.Append(t.Context(), calls); err != nil {
			t.Fatal(err)
		}
		found, err := store.Calls(t.Context(), domain.CallQuery{Limit: 10 * most, OldestFirst: true})
		if err != nil || len(found) > most || found[len(found)-1].Key != fmt.Sprint(i) {
			t.Fatalf("after batch %d there are %d calls, %v", i, len(found), err)
		}
		for j := range found {
			if j > 0 && found[j].ID != found[j-1].ID+1 {
				t.Fatalf("call %d follows call %d", found[j].ID, found[j-1].ID)
			}
		}
		for _, after := range []int64{1, found[0].ID - 1, found[0].ID, found[len(found)-1].ID, found[len(found)-1].ID + 5} {
			page, err := store.Calls(t.Context(), domain.CallQuery{After: after, Limit: 1, OldestFirst: true})
			if want := max(after+1, found[0].ID); err != nil || len(page) != 0 && page[0].ID != want || len(page) == 0 && want <= found[len(found)-1].ID {
				t.Fatalf("after %d: %+v, %v", after, page, err)
			}
		}
	}
	// A batch that is taken back pushes nothing out.
	before, _ := store.Calls(t.Context(), domain.CallQuery{Limit: 1, OldestFirst: true})
	store.Do(t.Context(), func(_ domain.Counter, log domain.AuditLog) error {
		return errors.Join(log.Append(t.Context(), make([]domain.Call, 3*most)), errors.New("failed"))
	})
	if after, _ := store.Calls(t.Context(), domain.CallQuery{Limit: 1, OldestFirst: true}); after[0] != before[0] {
		t.Errorf("the oldest call was %+v and is %+v", before, after)
	}
}

// A hit waits for its turn no longer than its context.
func TestWaitingEndsWithTheContext(t *testing.T) {
	store := memstore.New(memstore.Options{})
	err := store.Do(t.Context(), func(domain.Counter, domain.AuditLog) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := store.Take(ctx, []domain.Take{take("k", at)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a take beside a unit of work: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatAFullLogLetGoIsTold(t *testing.T) {
	store := memstore.New(memstore.Options{MaxCalls: 3})
	for i := range 5 {
		call := domain.Call{Kind: domain.CallHit, At: at.Add(time.Duration(i) * time.Second), Policy: []string{"p", "q"}[i%2]}
		if err := store.Append(t.Context(), []domain.Call{call}); err != nil {
			t.Fatal(err)
		}
	}
	if removed, more, err := store.PruneCalls(t.Context(), domain.Prune{Policy: "p", At: at.Add(time.Hour), Most: 1, Limit: 1}); removed != 1 || more || err != nil {
		t.Errorf("pruned %d, more %v, %v", removed, more, err)
	}
	told, err := store.PrunedCalls(t.Context())
	if err != nil || len(told) != 2 {
		t.Fatalf("told %+v, %v", told, err)
	}
	for _, got := range told {
		want := domain.PrunedCalls{Policy: "p", Through: 3, Removed: 2, At: at.Add(time.Hour)} // call 1 made room, call 3 was pruned
		if got.Policy == "q" {
			want = domain.PrunedCalls{Policy: "q", Through: 2, Removed: 1, At: at.Add(4 * time.Second)} // call 5 needed room
		}
		if got != want {
			t.Errorf("told %+v, want %+v", got, want)
		}
	}
}
