package domain

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// Ledger is the arithmetic of a batch: it lists every window that the batch
// refers to, once, and decides takes on them. A store that can read and write
// rows under a lock uses it in three steps: make a ledger, fill in the tallies of
// the windows that it holds, [Ledger.Settle] and write back the windows that changed.
//
// A Ledger is for one goroutine.
type Ledger struct {
	// Windows are the windows that the batch refers to. The store sets the Tally
	// of those that it holds; the others stay at zero, never hit.
	Windows []LedgerWindow

	refs []ref // where each slot's windows are, in the order of the slots
}

// LedgerWindow is one window of one key under one policy: a row.
type LedgerWindow struct {
	Policy   string
	Key      string
	Schedule string
	Start    time.Time
	// Expires is when the store may forget the window. It is the zero time for one
	// that is only looked back at, which therefore never changes.
	Expires time.Time
	// Tally holds Count and Refused; the rest of it is not the window's.
	Tally Tally
	// Changed says, after Settle, that the window must be written.
	Changed bool
}

// ref is where a slot's windows are in the ledger.
type ref struct {
	own, previous int // previous is -1 if the slot does not look back
}

// WindowID identifies a window. It can be compared and be the key of a map.
type WindowID struct {
	Policy   string
	Key      string
	Schedule string
	Start    int64 // Unix seconds
}

// ID identifies the slot's own window.
func (s *Slot) ID() WindowID {
	return WindowID{Policy: s.Policy, Key: s.Key, Schedule: s.Schedule, Start: s.Window.Start.Unix()}
}

// ID identifies the window.
func (w *LedgerWindow) ID() WindowID {
	return WindowID{Policy: w.Policy, Key: w.Key, Schedule: w.Schedule, Start: w.Start.Unix()}
}

// Compare orders windows by the bytes of policy, key and schedule, and then by start.
// It is negative if id comes first, 0 if both are the same.
func (id WindowID) Compare(other WindowID) int {
	return cmp.Or(strings.Compare(id.Policy, other.Policy), strings.Compare(id.Key, other.Key),
		strings.Compare(id.Schedule, other.Schedule), cmp.Compare(id.Start, other.Start))
}

// NewLedger lists the windows of takes.
func NewLedger(takes []Take) *Ledger {
	l, index := newLedger(len(takes))
	for i := range takes {
		for j := range takes[i].Slots {
			l.add(index, &takes[i].Slots[j])
		}
	}
	return l
}

// NewLookLedger lists the windows of slots, to look at with [Ledger.Look].
func NewLookLedger(slots []Slot) *Ledger {
	l, index := newLedger(len(slots))
	for i := range slots {
		l.add(index, &slots[i])
	}
	return l
}

func newLedger(size int) (*Ledger, map[WindowID]int) {
	return &Ledger{Windows: make([]LedgerWindow, 0, size), refs: make([]ref, 0, size)}, make(map[WindowID]int, size)
}

func (l *Ledger) add(index map[WindowID]int, slot *Slot) {
	r := ref{own: l.put(index, slot, slot.Window.Start), previous: -1}
	l.Windows[r.own].Expires = slot.Expires
	if slot.Previous.Num > 0 {
		r.previous = l.put(index, slot, slot.Previous.Window.Start)
	}
	l.refs = append(l.refs, r)
}

func (l *Ledger) put(index map[WindowID]int, slot *Slot, start time.Time) int {
	id := WindowID{Policy: slot.Policy, Key: slot.Key, Schedule: slot.Schedule, Start: start.Unix()}
	at, known := index[id]
	if !known {
		at = len(l.Windows)
		index[id] = at
		l.Windows = append(l.Windows, LedgerWindow{Policy: slot.Policy, Key: slot.Key, Schedule: slot.Schedule, Start: start})
	}
	return at
}

// Settle decides the takes that the ledger was made of, in order, each knowing
// the ones before, and returns what each came to.
//
// A take is allowed if every slot that is not Shadow has used + carry + cost ≤ limit;
// then each slot that has room is charged. The slots without room add the cost to
// count and refused, whatever becomes of the take; the others stay as they were.
func (l *Ledger) Settle(takes []Take) []Taken {
	taken := make([]Taken, len(takes))
	tallies := make([]Tally, len(l.refs))
	refs := l.refs
	for i := range takes {
		n := len(takes[i].Slots)
		taken[i].Tallies = tallies[:n:n]
		l.settle(&takes[i], refs[:n], &taken[i])
		tallies, refs = tallies[n:], refs[n:]
	}
	return taken
}

func (l *Ledger) settle(take *Take, refs []ref, taken *Taken) {
	taken.Allowed = !take.Refused
	for i := range take.Slots {
		tally := &taken.Tallies[i]
		*tally = l.look(&take.Slots[i], refs[i])
		tally.Refuses = take.Refused || !tally.Fits(take.Cost, take.Slots[i].Limit)
		taken.Allowed = taken.Allowed && (!tally.Refuses || take.Slots[i].Shadow)
	}
	for i := range take.Slots {
		tally := &taken.Tallies[i]
		switch {
		case tally.Refuses:
			tally.Refuse(take.Cost)
		case taken.Allowed:
			tally.charge(take.Cost)
		default:
			continue
		}
		window := &l.Windows[refs[i].own]
		window.Tally.Count, window.Tally.Refused = tally.Count, tally.Refused
		window.Changed = true
	}
}

// Look returns the tallies of the slots that the ledger was made of, carry included.
func (l *Ledger) Look(slots []Slot) []Tally {
	tallies := make([]Tally, len(slots))
	for i := range slots {
		tallies[i] = l.look(&slots[i], l.refs[i])
	}
	return tallies
}

func (l *Ledger) look(slot *Slot, r ref) Tally {
	tally := l.Windows[r.own].Tally
	if r.previous >= 0 {
		tally.Previous = l.Windows[r.previous].Tally.Used()
		tally.Carry = slot.Previous.Carry(tally.Previous)
	}
	return tally
}

// charge counts cost units as used. Where the count cannot grow, refused units are
// forgotten for it: what is used must not seem less than it is.
func (t *Tally) charge(cost int64) {
	over := max(cost-(math.MaxInt64-t.Count), 0)
	t.Count += cost - over
	t.Refused = max(t.Refused-over, 0)
}

// Refuse adds cost units to count and refused. What is used stays, whatever the numbers.
func (t *Tally) Refuse(cost int64) {
	cost = min(cost, math.MaxInt64-t.Count)
	t.Count += cost
	t.Refused += cost
}
