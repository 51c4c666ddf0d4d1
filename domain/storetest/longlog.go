package storetest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// lingering is for how long a long log is asked again: a store that sums up what lies
// behind has begun by then.
const lingering = 400 * time.Millisecond

// testLongLog asks for pages and sums over so many calls that a store may sum up old
// ones, now or in the background; what it answers must be right at every moment.
func testLongLog(t *testing.T, store, other domain.AuditLog) {
	const batch, batches = 1000, 40
	random, seed := seeded()
	log := newLongLog(random)
	for range batches {
		log.append(t, store, random, batch)
	}
	totaler, sums := store.(domain.Totaler)
	_, prunes := store.(domain.CallPruner)

	t.Run("a long log is paged through any filters", func(t *testing.T) {
		defer tellSeed(t, seed)
		for i, query := range log.queries(random) {
			query.OldestFirst, query.Limit = i%2 == 0, 5000
			if !log.wantPages(t, other, log.all, query) {
				return
			}
		}
	})
	if sums {
		t.Run("a long log is added up by anything, at once and later", func(t *testing.T) {
			defer tellSeed(t, seed)
			begin := time.Now()
			for round := 0; round < 2 || time.Since(begin) < lingering; round++ {
				if !log.wantTotals(t, totaler, random) {
					return
				}
			}
		})
	}
	if prunes {
		t.Run("what is left of a long log is paged and added up", func(t *testing.T) {
			defer tellSeed(t, seed)
			for i, prune := range []domain.Prune{
				{Policy: log.policies[0], Before: log.begin.Add(log.length() / 8), Limit: 3000},
				{Policy: log.policies[1], Most: batch * batches / 5, Limit: 3000},
				{Policy: log.policies[0], Before: log.begin.Add(log.length() / 2), Limit: 3000},
				{Policy: log.policies[0], Most: 10, Limit: 50_000},
			} {
				if !log.prune(t, store, prune) || sums && !log.wantTotals(t, totaler, random) {
					t.Fatalf("after pruning %d", i)
				}
				log.append(t, store, random, batch/2)
				for _, oldestFirst := range []bool{true, false} {
					query := domain.CallQuery{Key: pick(random, log.keys), OldestFirst: oldestFirst, Limit: 100}
					if !log.wantPages(t, store, log.all, query) {
						t.Fatalf("after pruning %d", i)
					}
				}
			}
		})
	}
}

func tellSeed(t *testing.T, seed uint64) {
	if t.Failed() {
		t.Logf("the seed is %d", seed)
	}
}

// longLog is what the log should have.
type longLog struct {
	mix
	all   []domain.Call // in their order; Actor tells them apart
	n     int           // how many there ever were
	begin time.Time
	last  time.Time
}

func newLongLog(random *rand.Rand) *longLog {
	log := &longLog{mix: newMix(), begin: at, last: at}
	for len(log.keys) < 50 {
		log.keys = append(log.keys, draw("key"))
	}
	return log
}

func (l *longLog) length() time.Duration { return l.last.Sub(l.begin) }

// append appends n calls, some seconds after one another, not all in order. Some keys
// have most of them, some come seldom.
func (l *longLog) append(t *testing.T, store domain.AuditLog, random *rand.Rand, n int) {
	t.Helper()
	calls := l.calls(random, n)
	for i := range calls {
		l.last = l.last.Add(time.Duration(random.IntN(12_000)) * time.Millisecond)
		calls[i].At = l.last.Add(-time.Duration(random.IntN(3)*random.IntN(60_000)) * time.Millisecond)
		calls[i].Actor = strconv.Itoa(l.n + i)
		calls[i].Key = l.keys[min(random.IntN(len(l.keys)), random.IntN(len(l.keys)), random.IntN(len(l.keys)))]
	}
	mustAppend(t, store, calls...)
	l.all = append(l.all, calls...)
	l.n += n
}

// queries are by each filter, and by some together.
func (l *longLog) queries(random *rand.Rand) []domain.CallQuery {
	third := l.length() / 3
	policy, key, seldom := l.policies[0], l.keys[0], l.keys[len(l.keys)-1]
	return []domain.CallQuery{
		{Policy: policy}, {Policy: l.policies[1]}, {Key: key}, {Key: seldom}, {Path: l.paths[2]}, {Policy: policy, Outcome: domain.OutcomeRefused},
		{Policy: policy, Kinds: []domain.CallKind{domain.CallReset}}, {Policy: policy, RequestID: "r3"},
		{Policy: policy, From: l.begin.Add(third), To: l.begin.Add(third + time.Hour)}, {Key: key, To: l.begin.Add(third)},
		{Policy: policy, From: l.begin.Add(2 * third), Key: l.keys[1], Path: l.paths[0]}, l.query(random), l.query(random),
	}
}

// wantTotals compares sums by anything: over the whole log, and over spans of it that
// begin and end somewhere.
func (l *longLog) wantTotals(t *testing.T, totaler domain.Totaler, random *rand.Rand) bool {
	t.Helper()
	somewhere := func() time.Time {
		return l.begin.Add(time.Duration(random.Int64N(int64(l.length()/time.Millisecond))) * time.Millisecond)
	}
	for i, by := range everyBy {
		whole, part := domain.CallQuery{Policy: l.policies[i%2]}, domain.CallQuery{Key: l.keys[random.IntN(3)], From: somewhere(), To: somewhere()}
		if i%3 == 0 {
			part = domain.CallQuery{Path: pick(random, l.paths), Policy: l.policies[0], From: somewhere()}
		}
		for _, filters := range []domain.CallQuery{whole, part} {
			query := l.totalQuery(filters, by)
			if !wantTotals(t, totaler, query, addUp(l.all, query)) {
				return false
			}
		}
	}
	return true
}

// prune removes, checks that what has gone is what had to and nothing that must stay,
// and has the model lose the same.
func (l *longLog) prune(t *testing.T, log domain.AuditLog, prune domain.Prune) bool {
	t.Helper()
	prune.At = l.last // none is misdated
	removed := pruneAll(t, log.(domain.CallPruner), prune)
	kept := map[string]bool{} // by Actor
	for _, call := range readAll(t, log, domain.CallQuery{Policy: prune.Policy, OldestFirst: true, Limit: 5000}) {
		kept[call.Actor] = true
	}
	held := int64(0)
	for i := range l.all {
		if l.all[i].Policy == prune.Policy && l.all[i].Kind.Ages() {
			held++
		}
	}
	place, young, gone := int64(0), false, 0
	l.all = slices.DeleteFunc(l.all, func(call domain.Call) bool {
		if call.Policy != prune.Policy {
			return false
		}
		if !call.Kind.Ages() {
			if !kept[call.Actor] {
				t.Errorf("a %s is not kept", call.Kind)
			}
			return !kept[call.Actor]
		}
		place++
		stays := !(prune.Most > 0 && place <= held-prune.Most) && !call.At.Before(prune.Before)
		young = young || stays
		if stays && !kept[call.Actor] || !young && kept[call.Actor] {
			t.Errorf("call %d of %d, made at %s, is kept: %v (%+v)", place, held, call.At, kept[call.Actor], prune)
		}
		if !kept[call.Actor] {
			gone++
		}
		return !kept[call.Actor]
	})
	if gone != removed {
		t.Errorf("%d calls are gone, said were %d", gone, removed)
	}
	return !t.Failed()
}
