package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Offsets of the fields of a record. lua/prelude.lua documents the fields, and counts from 1.
const (
	stateAt       = len(format)
	markAt        = stateAt + 1
	fenceAt       = markAt + 1
	leaseAt       = fenceAt + fenceDigits
	createdAt     = leaseAt + 17
	expiresAt     = createdAt + stampDigits
	fingerprintAt = expiresAt + 13
	metaLengthAt  = fingerprintAt + len(store.Fingerprint{})
	ownerLengthAt = metaLengthAt + metaDigits
	tailAt        = ownerLengthAt + ownerDigits

	fenceDigits = 19 // 16 digits of count, 3 random ones
	stampDigits = 16
	metaDigits  = 7
	ownerDigits = 2
	noMeta      = "-------"
)

// claimArgs returns the arguments of reserve.lua that come from the claim. They are cut out of one string, which
// allocates once. They are copies: a command may be written after its call has given up and returned.
func claimArgs(c store.Claim) (lease, retention, random, fields string) {
	var room [256]byte // on the stack, enough without a large meta
	b := appendMicros(room[:0], c.Lease)
	end1 := len(b)
	b = appendMicros(b, max(c.Retention, c.Lease))
	end2 := len(b)
	// The random digits keep the lease of a lost owner from fitting after a failover: see docs/failover.md. They need
	// not be hard to guess.
	b = appendPadded(b, uint64(rand.Uint32N(1_000_000)), 6)
	end3 := len(b)
	b = append(b, c.Fingerprint[:]...)
	b = appendMetaLength(b, c.Meta)
	b = appendPadded(b, uint64(len(c.Owner)), ownerDigits)
	b = append(append(b, c.Owner...), c.Meta...)
	text := string(b)
	return text[:end1], text[end1:end2], text[end2:end3], text[end3:]
}

func appendMetaLength(b, meta []byte) []byte {
	if meta == nil {
		return append(b, noMeta...)
	}
	return appendPadded(b, uint64(len(meta)), metaDigits)
}

// appendPadded appends n with leading zeros. A number of more digits is appended whole.
func appendPadded(b []byte, n uint64, digits int) []byte {
	var room [20]byte
	text := strconv.AppendUint(room[:0], n, 10)
	for range digits - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

// appendMicros appends d in microseconds, rounded up: no lease is shorter than its claim requires. Forever is 0.
func appendMicros(b []byte, d time.Duration) []byte {
	if d == store.Forever {
		return append(b, '0')
	}
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return strconv.AppendInt(b, int64(n), 10)
}

func microsText(d time.Duration) string {
	var room [20]byte
	return string(appendMicros(room[:0], d))
}

// fenceText is a fence as the scripts compare it. No other fence has the same text.
func fenceText(fence uint64) string {
	var room [fenceDigits + 1]byte
	return string(appendPadded(room[:0], fence, fenceDigits))
}

// readReply reads the reply of reserve.lua or find.lua about an existing record: the letter of a verdict and the time,
// and the record.
func readReply(reply rueidis.RedisMessage, id store.ID) (letter byte, rec store.Record, err error) {
	parts, err := reply.ToArray()
	if len(parts) != 2 {
		return letter, rec, malformed("a reply that is no pair: %v", err)
	}
	lead, _ := parts[0].ToString()
	text, _ := parts[1].ToString()
	if len(lead) != 1+stampDigits {
		return letter, rec, malformed("the lead %q of a reply", lead)
	}
	if rec, err = parseRecord(text, id); err != nil {
		return letter, rec, err
	}
	f := fields{text: lead}
	rec.ReadAt = time.UnixMicro(f.number(1, len(lead), "time"))
	return lead[0], rec, f.err()
}

// parseRecord reads a record. Its error wraps store.ErrDamaged.
func parseRecord(text string, id store.ID) (store.Record, error) {
	f := fields{text: text}
	rec := store.Record{ID: id}
	if f.check(len(text) >= tailAt && text[:stateAt] == format, "format") {
		f.head(&rec)
		copy(rec.Fingerprint[:], text[fingerprintAt:metaLengthAt])
		f.tail(&rec)
	}
	if err := f.err(); err != nil {
		return store.Record{}, err
	}
	return rec, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %w", ErrFormat, store.ErrUnavailable, fmt.Errorf(format, args...))
}

// fields reads the fields of a text, and keeps the name of the first one that is not as it should be.
type fields struct{ text, bad string }

func (f *fields) check(holds bool, name string) bool {
	if !holds && f.bad == "" {
		f.bad = name
	}
	return holds
}

func (f *fields) err() error {
	if f.bad == "" {
		return nil
	}
	return fmt.Errorf("%w: %w: %w: the %s can't be read", store.ErrDamaged, ErrFormat, store.ErrUnavailable, f.bad)
}

// number reads digits. A number that an int64 can't hold is damage.
func (f *fields) number(from, to int, name string) int64 {
	n, err := strconv.ParseUint(f.text[from:to], 10, 63)
	f.check(err == nil, name)
	return int64(n)
}

var states = map[byte]store.State{'p': store.StatePending, 'c': store.StateComplete, 'f': store.StateFailed}

// head reads the fields from the state to the expiry.
func (f *fields) head(rec *store.Record) {
	rec.State = states[f.text[stateAt]]
	f.check(rec.State != 0, "state")
	rec.Fence = uint64(f.number(fenceAt, leaseAt, "fence"))
	lease := f.number(leaseAt, createdAt, "lease")
	if rec.State == store.StatePending && lease != 0 {
		rec.LeaseUntil = time.UnixMicro(lease)
	}
	rec.CreatedAt = time.UnixMicro(f.number(createdAt, expiresAt, "creation"))
	if last := f.number(expiresAt, fingerprintAt, "expiry"); last != 0 {
		rec.ExpiresAt = time.UnixMilli(last + 1)
	}
}

// tail reads the owner, the meta and the result. Nil is an absent part, and differs from an empty one. The caller
// may keep and change the result.
func (f *fields) tail(rec *store.Record) {
	owner := tailAt + int(f.number(ownerLengthAt, tailAt, "length of the owner"))
	meta := owner
	if f.text[metaLengthAt:ownerLengthAt] != noMeta {
		meta += int(f.number(metaLengthAt, ownerLengthAt, "length of the meta"))
	}
	if !f.check(meta <= len(f.text), "meta") {
		return
	}
	copied := []byte(f.text[owner:])
	rest := copied[meta-owner:]
	if f.text[metaLengthAt:ownerLengthAt] != noMeta {
		rec.Meta = copied[: meta-owner : meta-owner]
	}
	mark := f.text[markAt]
	switch {
	case rec.State == store.StatePending:
		rec.Owner = f.text[tailAt:owner]
		f.check((mark == '-' || mark == 'w') && len(rest) == 0, "mark")
	case mark == '+':
		rec.Result = rest
	default:
		f.check(mark == '-' && len(rest) == 0, "mark")
	}
}
