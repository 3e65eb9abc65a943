package redisstore

import "math/rand/v2"

// fenceDigits is the width of a fence where it is kept: 16 digits of count, 3 of chance.
const fenceDigits = 19

// fence writes a fence as a script compares it. No other fence than the record's gives its text.
func (w words) fence(fence uint64) words { return w.padded(fence, fenceDigits) }

// fenceText is a fence that stands alone.
func fenceText(fence uint64) string {
	var room [fenceDigits]byte
	return words{text: room[:0]}.fence(fence).cut()[0]
}

// A reservation draws one of a million chances.
const (
	fenceChance  = 1_000_000
	chanceDigits = 6
)

// chance writes six random digits, of which reserve.lua makes the part of a fence that no count repeats. A failover goes
// back to an older count: two histories that go on from the same count give the same ID two owners, and only what was
// drawn keeps the lost owner's lease from fitting the other's record. Nobody has to be kept from guessing it.
func (w words) chance() words { return w.padded(uint64(rand.Uint32N(fenceChance)), chanceDigits) }
