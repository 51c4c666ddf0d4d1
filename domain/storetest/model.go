package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// testModel has the store decide batches of any kind, and a plain model beside it
// that knows nothing of batches.
func testModel(t *testing.T, store domain.Counter) {
	t.Run("any takes agree with a plain model", func(t *testing.T) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		key, limits := draw("key"), [3]int64{3, 10, 40}
		model := map[domain.WindowID]*domain.Tally{}
		for batch := range 60 {
			takes := make([]domain.Take, 1+random.IntN(12))
			for i := range takes {
				takes[i] = take(1 + random.Int64N(5))
				takes[i].Refused = random.IntN(8) == 0
				of := fmt.Sprint(key, random.IntN(2))
				for _, p := range random.Perm(len(limits))[:1+random.IntN(len(limits))] {
					s := sliding(fmt.Sprint("p", p), of, limits[p], random.Int64N(61), 60)
					back := time.Duration(random.IntN(3)) * time.Minute
					s.Window = slot("", "", 0, s.Window.Start.Add(-back)).Window
					s.Previous.Window = slot("", "", 0, s.Previous.Window.Start.Add(-back)).Window
					s.Shadow = random.IntN(4) == 0
					takes[i].Slots = append(takes[i].Slots, s)
				}
			}
			for i, taken := range mustTake(t, store, takes...) {
				if want := settle(model, takes[i]); fmt.Sprint(taken) != fmt.Sprint(want) {
					t.Fatalf("seed %d, batch %d, take %d\n%+v\nis %+v, want %+v", seed, batch, i, takes[i], taken, want)
				}
			}
		}
		for id, want := range model {
			s := slot(id.Policy, id.Key, 0, time.Unix(id.Start, 0).UTC())
			wantLook(t, store, s, *want)
		}
	})
}

// settle is the model: one take on windows in a map, in small numbers.
func settle(model map[domain.WindowID]*domain.Tally, take domain.Take) domain.Taken {
	taken := domain.Taken{Allowed: !take.Refused}
	own := make([]*domain.Tally, len(take.Slots))
	for i, s := range take.Slots {
		if own[i] = model[s.ID()]; own[i] == nil {
			own[i] = new(domain.Tally)
			model[s.ID()] = own[i]
		}
		now, back := *own[i], s.ID()
		back.Start = s.Previous.Window.Start.Unix()
		if before := model[back]; before != nil && s.Previous.Num > 0 {
			now.Previous = before.Count - before.Refused
			now.Carry = (now.Previous*s.Previous.Num + s.Previous.Den - 1) / s.Previous.Den
		}
		now.Refuses = take.Refused || now.Count-now.Refused+now.Carry+take.Cost > s.Limit
		taken.Tallies = append(taken.Tallies, now)
		taken.Allowed = taken.Allowed && (s.Shadow || !now.Refuses)
	}
	for i := range take.Slots {
		now := &taken.Tallies[i]
		if now.Refuses || taken.Allowed {
			now.Count += take.Cost
		}
		if now.Refuses {
			now.Refused += take.Cost
		}
		own[i].Count, own[i].Refused = now.Count, now.Refused
	}
	return taken
}
