package pgoutbox

import (
	"github.com/redo-go/redo/outbox"
)

// Texts are those of statements, as they are sent.
type Texts struct{ Claim, Park, Sent, Unpark, Purge string }

// Statements returns the texts.
func (q *Queue) Statements() Texts {
	return Texts{
		Claim:  q.sql.claim,
		Park:   q.sql.park,
		Sent:   q.sql.settle[outbox.Sent],
		Unpark: q.sql.unpark,
		Purge:  q.sql.purge,
	}
}

// What Claim passes over, and parks.
const (
	Spare      = spare
	Stride     = stride
	MostParked = mostParked
)
