package pgoutbox

import (
	"context"

	"github.com/redo-go/redo/outbox"
)

// Texts are those of statements, as they are sent.
type Texts struct{ Claim, Park, Sent, Unpark, Purge string }

// Statements returns the texts.
func (q *Queue) Statements() Texts {
	return Texts{Claim: q.sql.claim, Park: q.sql.park, Sent: q.sql.settle[outbox.Sent], Unpark: q.sql.unpark, Purge: q.sql.purge}
}

// What Claim passes over, and parks.
const (
	Spare      = spare
	Stride     = stride
	MostParked = mostParked
)

// Verdict says what is made of a statement's error: whether it is made again, and else what is returned.
func (q *Queue) Verdict(ctx context.Context, err error, writes bool) (again bool, failure error) {
	return q.again(err, writes), q.failure(ctx, err, writes)
}
