package domain

import "math"

// WindowID names one window of one key under one policy, the row that a store keeps.
type WindowID struct {
	Policy string
	Key    string
	Start  int64 // Unix seconds
}

// ID names the slot's own window.
func (s Slot) ID() WindowID {
	return WindowID{Policy: s.Policy, Key: s.Key, Start: s.Window.Start.Unix()}
}

// PreviousID names the window before, if it weighs in.
func (s Slot) PreviousID() (id WindowID, weighs bool) {
	if s.Previous.Num <= 0 {
		return WindowID{}, false
	}
	return WindowID{Policy: s.Policy, Key: s.Key, Start: s.Previous.Window.Start.Unix()}, true
}

// Ledger holds the tallies that a batch of takes is decided on. A store fills it
// with what it read (Carry and Refuses left zero), calls [Settle] and writes back
// the windows that are in changed.
type Ledger map[WindowID]Tally

// Settle decides takes in order against the ledger and keeps it current. What is
// not in the ledger counts as never hit. It returns what each take came to.
//
// A take is allowed if every slot has used + carry + cost ≤ limit; then each slot
// is charged. Else the slots that had no room add the cost to count and refused,
// and the others stay as they were.
func Settle(ledger Ledger, takes []Take) []Taken {
	taken := make([]Taken, len(takes))
	slots := 0
	for i := range takes {
		slots += len(takes[i].Slots)
	}
	tallies := make([]Tally, slots)
	for i := range takes {
		n := len(takes[i].Slots)
		taken[i].Tallies, tallies = tallies[:n:n], tallies[n:]
		settle(ledger, &takes[i], &taken[i])
	}
	return taken
}

func settle(ledger Ledger, take *Take, taken *Taken) {
	taken.Allowed = !take.Refused
	for i := range take.Slots {
		slot, tally := &take.Slots[i], &taken.Tallies[i]
		*tally = ledger.Look(*slot)
		tally.Refuses = take.Refused || !tally.Fits(take.Cost, slot.Limit)
		taken.Allowed = taken.Allowed && !tally.Refuses
	}
	for i := range take.Slots {
		tally := &taken.Tallies[i]
		switch {
		case taken.Allowed:
			tally.charge(take.Cost)
		case tally.Refuses:
			tally.Refuse(take.Cost)
		default:
			continue
		}
		ledger[take.Slots[i].ID()] = Tally{Count: tally.Count, Refused: tally.Refused}
	}
}

// Look is the slot's tally in the ledger, carry included.
func (l Ledger) Look(slot Slot) Tally {
	tally := l[slot.ID()]
	if id, weighs := slot.PreviousID(); weighs {
		tally.Carry = slot.Previous.Carry(l[id].Used())
	}
	return tally
}

// charge counts cost units as used.
func (t *Tally) charge(cost int64) {
	if t.Count > math.MaxInt64-cost {
		t.Count = math.MaxInt64
		return
	}
	t.Count += cost
}

// Refuse adds cost units to count and refused. What is used stays, whatever the numbers.
func (t *Tally) Refuse(cost int64) {
	cost = min(cost, math.MaxInt64-t.Count)
	t.Count += cost
	t.Refused += cost
}
