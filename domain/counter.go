package domain

import (
	"context"
	"math/bits"
	"time"
)

// Counter counts units in slots. It is the port that a storage adapter
// implements first. A [Ledger] does the arithmetic; an adapter only has to read
// tallies and write them back without anyone between.
//
// A Counter is safe for concurrent use, also by several processes that share the
// store, and keeps no clock: all times come with the slots.
type Counter interface {
	// Take decides each take in the order given, the later ones knowing the
	// earlier, and returns one Taken for each in the same order. Either all takes
	// are recorded or, with an error, none. The same slot may occur in many takes.
	// The slice is the caller's again once Take has returned.
	Take(ctx context.Context, takes []Take) ([]Taken, error)

	// Look returns the tally of each slot, in order, and changes nothing. A slot
	// that was never hit has the zero tally.
	Look(ctx context.Context, slots []Slot) ([]Tally, error)

	// Reset forgets every window of key under policy, past, current and future.
	// Resetting what was never hit is no error.
	Reset(ctx context.Context, policy, key string) error
}

// Slot is where a hit is counted and what may be counted there. Policy, Key,
// Schedule and Window.Start identify it; the rest says how to decide.
type Slot struct {
	Policy string
	Key    string
	// Schedule is the text form of the policy's schedule. A policy whose schedule
	// changes starts anew, also where windows of both begin at the same time.
	Schedule string
	Window   Window
	// Limit is the largest number of used units, carry included; [Unlimited] if there is none.
	Limit int64
	// Shadow says that the slot counts as always, and what it refuses passes.
	Shadow bool
	// Previous weighs in the window before, for schedules that slide. The zero
	// value weighs nothing and spares the store a read.
	Previous Previous
	// Expires is when the store may forget the slot's window; never before.
	Expires time.Time
}

// Previous says which share of an earlier window's used units still counts.
type Previous struct {
	Window Window
	// Num/Den is the share, 0 ≤ Num ≤ Den. With Num 0 nothing is carried and
	// Window need not be read.
	Num, Den int64
}

// Carry is the share of used units that still counts, rounded up. Used units
// below 0 carry nothing.
func (p Previous) Carry(used int64) int64 {
	if p.Num <= 0 || used <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(used), uint64(min(p.Num, p.Den)))
	quo, rem := bits.Div64(hi, lo, uint64(p.Den)) // hi < Den because Num ≤ Den and used < 2⁶³
	if rem > 0 {
		quo++
	}
	return int64(quo)
}

// Take asks for the same units from each of its slots, all or nothing. Slots
// that are Shadow have no say in it.
type Take struct {
	// Slots are distinct and at least one, all of the same key.
	Slots []Slot
	// Cost is the number of units, at least 1.
	Cost int64
	// Refused says that the take has been refused already, by every slot in it:
	// the units are added to count and refused of each and nothing is decided.
	Refused bool
}

// Taken is what a take came to.
type Taken struct {
	// Allowed says that every slot had room, those that are Shadow apart. Then each
	// that had room was charged.
	Allowed bool
	// Tallies are the slots' tallies after the take, in the order of its slots.
	Tallies []Tally
}

// Tally is what a slot holds.
type Tally struct {
	// Count is the units attempted in the window, Refused those that were refused.
	// Both stop at the largest int64 rather than wrap.
	Count, Refused int64
	// Previous is the units used in the previous window, and Carry what of them still
	// weighs in; both 0 unless the slot looks back.
	Previous, Carry int64
	// Refuses says that this slot had no room for the take. It is false in the answer of Look.
	Refuses bool
}

// Used is the units that were allowed in the window, without the carry.
func (t Tally) Used() int64 { return t.Count - t.Refused }

// Fits reports whether cost more units stay within limit. A cost is at most
// [MaxUnits]; [Unlimited] fits everything.
func (t Tally) Fits(cost, limit int64) bool {
	return limit == Unlimited || cost <= t.Room(limit)
}

// Room is the units that are left within limit, never negative; [Unlimited] if
// there is no limit.
func (t Tally) Room(limit int64) int64 {
	switch {
	case limit == Unlimited:
		return Unlimited
	case t.Used() >= limit || t.Carry >= limit: // beyond here nothing can overflow
		return 0
	}
	return max(limit-t.Used()-t.Carry, 0)
}
