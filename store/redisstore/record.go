package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Fields of a script's answer that holds a record.
const (
	verdictField = iota
	nowField
	stateField
	fingerprintField
	fenceField
	leaseField
	createdField
	expiresField
	metaField
	resultField
	fieldCount
)

// readAnswer reads what a script's answer function wrote: a word, and the record of id unless the word is all there is.
func readAnswer(r rueidis.RedisResult, id store.ID) (word string, rec store.Record, err error) {
	fields, err := r.ToArray()
	if err != nil {
		return "", rec, err
	}
	a := answer{fields: fields}
	if word = a.text(verdictField); len(fields) == 1 && a.err == nil {
		return word, rec, nil
	}
	if len(fields) != fieldCount {
		return "", rec, malformed("an answer of %d fields", len(fields))
	}
	fingerprint := a.text(fingerprintField)
	if len(fingerprint) != len(rec.Fingerprint) {
		return "", rec, malformed("a fingerprint of %d bytes", len(fingerprint))
	}
	rec = store.Record{
		ID:         id,
		State:      a.state(),
		Result:     a.bytes(resultField),
		Meta:       a.bytes(metaField),
		Fence:      uint64(a.number(fenceField)),
		LeaseUntil: a.instant(leaseField),
		CreatedAt:  a.instant(createdField),
		ExpiresAt:  a.instant(expiresField),
		ReadAt:     a.instant(nowField),
	}
	copy(rec.Fingerprint[:], fingerprint)
	return word, rec, a.err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %w", ErrFormat, store.ErrUnavailable, fmt.Errorf(format, args...))
}

// An answer reads fields, and remembers the first that is not what it should be.
type answer struct {
	fields []rueidis.RedisMessage
	err    error
}

func (a *answer) text(field int) string {
	if field >= len(a.fields) {
		a.fail("an answer of %d fields", len(a.fields))
		return ""
	}
	s, err := a.fields[field].ToString()
	if err != nil {
		a.fail("field %d: %w", field, err)
	}
	return s
}

// bytes tells nil, which is an absent field, from empty. The caller may keep what it returns.
func (a *answer) bytes(field int) []byte {
	if a.fields[field].IsNil() {
		return nil
	}
	s := a.text(field)
	return append(make([]byte, 0, len(s)), s...)
}

func (a *answer) number(field int) int64 {
	n, err := strconv.ParseInt(a.text(field), 10, 64)
	if err != nil || n < 0 {
		a.fail("field %d is no number", field)
	}
	return n
}

// instant is the zero time for zero.
func (a *answer) instant(field int) time.Time {
	n := a.number(field)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n)
}

func (a *answer) state() store.State {
	switch a.text(stateField) {
	case "p":
		return store.StatePending
	case "c":
		return store.StateComplete
	case "f":
		return store.StateFailed
	}
	a.fail("the state is none")
	return 0
}

func (a *answer) fail(format string, args ...any) {
	if a.err == nil {
		a.err = malformed(format, args...)
	}
}

// micros is d in microseconds, rounded up: no lease is shorter than it was asked for.
func micros(d time.Duration) string {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return strconv.FormatInt(int64(n), 10)
}

// retention is micros, with -1 for an endless one.
func retention(d time.Duration) string {
	if d == math.MaxInt64 {
		return "-1"
	}
	return micros(d)
}
