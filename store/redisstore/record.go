package redisstore

import (
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Where the fields of a record begin, counted from 0; lua/prelude.lua tells what they are, counting from 1.
const (
	recordFormat  = "redo1"
	stateAt       = 5
	metaLengthAt  = 7
	resultAt      = 14
	fenceAt       = 15
	leaseAt       = fenceAt + fenceDigits
	createdAt     = 51
	expiresAt     = createdAt + createdDigits
	fingerprintAt = 84
	headLength    = fingerprintAt + len(store.Fingerprint{})
	createdDigits = 16
	metaDigits    = resultAt - metaLengthAt
	noMeta        = "-------"
)

// An answer begins with a letter and the time.
const (
	letterAcquired = 'a' // the record comes without its meta
	letterAbsent   = '-' // and that is all
	answerLead     = 1 + createdDigits
)

// readAnswer reads what a script's answer function wrote: a letter, and the record of id unless it is absent.
func readAnswer(r rueidis.RedisResult, id store.ID) (letter byte, rec store.Record, err error) {
	text, err := r.ToString()
	if err != nil {
		return 0, rec, err
	}
	return parseAnswer(text, id)
}

func parseAnswer(text string, id store.ID) (letter byte, rec store.Record, err error) {
	if text == string(letterAbsent) {
		return letterAbsent, rec, nil
	}
	if len(text) < answerLead+headLength || text[answerLead:answerLead+len(recordFormat)] != recordFormat {
		return 0, rec, malformed("an answer of %d bytes that holds no record", len(text))
	}
	letter = text[0]
	a := answer{text: text[answerLead:]}
	rec = store.Record{
		ID:         id,
		State:      a.state(),
		Fence:      uint64(a.number(fenceAt, leaseAt)),
		LeaseUntil: a.instant(leaseAt, createdAt),
		CreatedAt:  a.instant(createdAt, expiresAt),
		ExpiresAt:  a.instant(expiresAt, fingerprintAt),
	}
	copy(rec.Fingerprint[:], a.text[fingerprintAt:headLength])
	rec.Meta, rec.Result = a.tail(letter != letterAcquired)
	a.text = text
	rec.ReadAt = a.instant(1, answerLead)
	return letter, rec, a.err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %w", ErrFormat, store.ErrUnavailable, fmt.Errorf(format, args...))
}

// An answer reads fields, and remembers the first that is not what it should be.
type answer struct {
	text string
	err  error
}

// number reads nothing but digits. What an int64 can't hold is no number.
func (a *answer) number(from, to int) int64 {
	var n uint64
	for _, c := range []byte(a.text[from:to]) {
		d := uint64(c) - '0'
		if d > 9 || n > math.MaxInt64/10 {
			a.fail("bytes %d to %d are no number", from, to)
			return 0
		}
		n = n*10 + d
	}
	if n > math.MaxInt64 {
		a.fail("bytes %d to %d are no number", from, to)
		return 0
	}
	return int64(n)
}

// instant is the zero time for zero.
func (a *answer) instant(from, to int) time.Time {
	n := a.number(from, to)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n)
}

func (a *answer) state() store.State {
	switch a.text[stateAt] {
	case 'p':
		return store.StatePending
	case 'c':
		return store.StateComplete
	case 'f':
		return store.StateFailed
	}
	a.fail("the state is none")
	return 0
}

// tail reads what comes after the head. Nil, which is an absent part, is told from empty. The caller may keep and change
// what it returns.
func (a *answer) tail(whole bool) (meta, result []byte) {
	if !whole {
		return nil, nil
	}
	rest := append([]byte{}, a.text[headLength:]...)
	if a.text[metaLengthAt:resultAt] != noMeta {
		n := int(a.number(metaLengthAt, resultAt))
		if n > len(rest) {
			a.fail("the meta has %d bytes of %d", len(rest), n)
			return nil, nil
		}
		meta, rest = rest[:n:n], rest[n:]
	}
	switch {
	case a.text[resultAt] == '+':
		result = rest
	case len(rest) > 0:
		a.fail("%d bytes are nobody's", len(rest))
	}
	return meta, result
}

func (a *answer) fail(format string, args ...any) {
	if a.err == nil {
		a.err = malformed(format, args...)
	}
}

// metaLength writes the length as the head holds it.
func (w words) metaLength(meta []byte) words {
	if meta == nil {
		w.text = append(w.text, noMeta...)
		return w.end()
	}
	return w.padded(uint64(len(meta)), metaDigits)
}
