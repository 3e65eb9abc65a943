// Package memoutbox is an outbox.Queue in memory, for tests and examples. It loses its events with the process.
//
//	queue := memoutbox.New()
//	tx := queue.Begin()
//	id, err := queue.Enqueue(ctx, tx, event)
//	err = tx.Commit()
//
// It starts no goroutine and reads the time from package time, so it works in the bubbles of testing/synctest. It
// keeps every rule of package outboxtest. A claim takes all due events of a line.
package memoutbox
