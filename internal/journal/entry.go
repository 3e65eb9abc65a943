package journal

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Entry is an operation's record, decoded.
type Entry struct {
	Record  store.Record
	Request Request
	// Settlement is the result of a settled operation, or the one on which a pending operation rests. It is nil for any
	// other pending operation, and for a settled one that was written without a result.
	Settlement *Settlement
}

// Read decodes a record. With an error it returns the fields that could be read.
func Read(rec store.Record) (Entry, error) {
	e := Entry{Record: rec}
	fail := func(err error) (Entry, error) { return e, fmt.Errorf("redo: operation %q: %w", rec.ID.Key, err) }
	request, err := DecodeRequest(rec.Meta)
	if err != nil {
		return fail(err)
	}
	e.Request = request
	result := rec.Result
	if rec.State == store.StatePending {
		result = e.Request.Rest
	}
	if result != nil {
		s, err := DecodeSettlement(result)
		if err != nil {
			return fail(err)
		}
		e.Settlement = &s
	}
	return e, nil
}

// Effect returns the operation's recorded effect.
func (e Entry) Effect() taxonomy.Effect {
	switch {
	case e.Settlement != nil:
		return e.Settlement.Effect
	case e.Record.State == store.StatePending && e.Request.Unapplied:
		return taxonomy.NotApplied
	}
	return taxonomy.EffectUnknown
}

// NewOwner returns the owner of a claim that is made at now. No other claim has it. It holds the instant, so that
// [Idle] knows when an operation was last called without another write: each Reserve writes the owner of its claim. It
// also holds a positive time for which the call may go on before it counts as idle.
func NewOwner(now time.Time, busy time.Duration) string {
	owner := strconv.FormatInt(now.UnixMilli(), 36) + "." + rand.Text()
	if busy > 0 {
		owner += "." + strconv.FormatInt(busy.Milliseconds(), 36)
	}
	return owner
}

// maxSkew is the longest time by which another process's clock may be ahead of this one's and still be believed.
const maxSkew = time.Minute

// Idle returns the time from the last call of a pending operation to now, less the time for which that call may go on.
// The owner of its claim holds the instant of that call, by the owner's clock. Without an owner, or with an instant in
// the future, Idle returns the age of the record.
func Idle(rec store.Record, now time.Time) time.Duration {
	at, rest, _ := strings.Cut(rec.Owner, ".")
	ms, err := strconv.ParseInt(at, 36, 64)
	if err != nil {
		return rec.Age()
	}
	idle := now.Sub(time.UnixMilli(ms))
	if idle < -maxSkew {
		return rec.Age()
	}
	_, more, _ := strings.Cut(rest, ".")
	busy, _ := strconv.ParseInt(more, 36, 64) // zero if there is none
	return max(0, min(idle, rec.Age())-time.Duration(busy)*time.Millisecond)
}
