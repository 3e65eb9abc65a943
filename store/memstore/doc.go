// Package memstore keeps records in memory. It is the reference implementation of [store.Store], for tests and for
// services of a single process that may lose their records when it ends.
//
//	st := memstore.New()
//	defer st.Close()
//
// It also implements Waiter, Checker, Lister and Forgetter. It reads time.Now and has goroutines only while a Wait
// runs, so that it runs on the virtual clock of a testing/synctest bubble.
//
// An expired record is absent, and its memory is freed later: each Reserve that adds a record frees up to two. A
// program that stops reserving can free the rest with [store.PurgeEvery].
package memstore
