package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Receipt is the outcome of a delivery that may be acknowledged.
type Receipt struct {
	Source      string
	ID          string
	PayloadHash store.Fingerprint // of the payload that was handled
	Status      Status
	// ReceivedAt is when the event was first received, and ProcessedAt when it was settled, by the store's clock.
	ReceivedAt  time.Time
	ProcessedAt time.Time
	// Attempts is the number of attempts that were made.
	Attempts int
	// Failure is the text of the error for which the event became a dead letter. It is "" for other events.
	Failure string
	// Unknown: the event became a dead letter because its handler ended the transaction, so that its effect is
	// unknown. It is a fault in the program.
	Unknown bool
	// PayloadMismatch: the event was settled or a dead letter before, with another payload. This delivery's payload was
	// not handled.
	PayloadMismatch bool
}

// Dead reports whether the event is a dead letter, or was one and was dropped.
func (r Receipt) Dead() bool { return r.Failure != "" }

// A Status is the result of a delivery. Its zero value is no status.
type Status uint8

// Statuses of a receipt.
const (
	Processed    Status = iota + 1 // the handler ran and succeeded
	Replayed                       // the event was settled or a dead letter before: nothing was done
	DeadLettered                   // the handler failed for the last time, or its effect is unknown
	Accepted                       // the event is in the queue of [Accept], and is handled later
)

var statusNames = [...]string{"no status", "processed", "replayed", "dead-lettered", "accepted"}

// String returns the status in a word.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

func (n note) receipt(ev Event, fp store.Fingerprint, s Status) Receipt {
	return Receipt{
		Source: ev.Source, ID: ev.ID, PayloadHash: fp, Status: s,
		ReceivedAt: n.Received, ProcessedAt: n.Changed, Attempts: n.Attempts, Failure: n.Err,
	}
}

// resolve returns the receipt or the refusal for an event that this delivery does not own.
func (a *attempt) resolve(ctx context.Context, g store.Grant) (Receipt, error) {
	switch rec := g.Record; g.Verdict {
	case store.Complete, store.Failed:
		return a.replay(ctx, rec)
	case store.Mismatch:
		return a.mismatch(ctx, rec)
	case store.InFlight:
		e := a.ev.fail(taxonomy.InFlight, nil)
		e.RetryAfter = rec.LeaseLeft()
		n, _ := decodeNote(rec.Meta) // one that can't be read counts no attempt
		e.Attempts = n.Attempts
		return Receipt{}, e
	default:
		err := fmt.Errorf("%w: the store gave %v", store.ErrUnavailable, g.Verdict)
		return Receipt{}, a.ev.fail(taxonomy.Unavailable, err)
	}
}

// replay returns the receipt of a settled event.
func (a *attempt) replay(ctx context.Context, rec store.Record) (Receipt, error) {
	if rec.OutcomeUnknown() {
		return a.replayUnknown(ctx, rec)
	}
	n, err := decodeNote(rec.Result)
	if err != nil {
		return Receipt{}, a.ev.fail(Unreadable, err)
	}
	return n.receipt(a.ev, rec.Fingerprint, Replayed), nil
}

// mismatch returns the receipt or the refusal for an event that was received with another payload. An event that is
// settled, or a dead letter, is acknowledged: the producer could change nothing by another delivery.
func (a *attempt) mismatch(ctx context.Context, rec store.Record) (r Receipt, err error) {
	if rec.State == store.StatePending {
		n, err := decodeNote(rec.Meta)
		if err != nil || n.State != dead {
			return Receipt{}, a.ev.fail(taxonomy.PayloadMismatch, nil).after(n.Attempts)
		}
		r = n.receipt(a.ev, rec.Fingerprint, Replayed)
	} else if r, err = a.replay(ctx, rec); err != nil {
		return r, err
	}
	r.PayloadMismatch = true
	return r, nil
}
