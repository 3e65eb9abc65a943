package pgoutbox

import "time"

// LookEvery is the time between two reads of a process behind a jam.
const LookEvery = lookEvery

// SetClock replaces the clock by which the queue repeats its reads. Call it before the first claim.
func (q *Queue) SetClock(now func() time.Time) { q.now = now }

// Micros returns a duration in microseconds.
var Micros = micros

// PlanSQL goes before statements.
const PlanSQL = planSQL

// Texts are those of statements, as they are sent.
type Texts struct {
	Enqueue, Batch, BatchJSON, Few, Log, Look, Late, ReadyLines, Lines, Settle, Extend, Sweep, Purge string
}

// Statements returns the texts.
func (q *Queue) Statements() Texts {
	return Texts{
		Enqueue: q.sql.enqueue, Batch: q.sql.batch.enqueue, BatchJSON: q.sql.batchJSON.enqueue,
		Few: q.sql.few, Log: q.sql.log, Look: q.sql.look, Late: q.sql.late,
		ReadyLines: q.sql.readyLines, Lines: q.sql.lines,
		Settle: q.sql.settle, Extend: q.sql.extend, Sweep: q.sql.sweep, Purge: q.sql.purge,
	}
}
