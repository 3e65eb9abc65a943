// Package memstore keeps records in memory: the reference implementation of [store.Store], for tests and for
// services of a single process that may lose their records when it ends.
//
//	st := memstore.New()
//	defer st.Close()
//
// It implements every optional interface of package store too: Waiter, Checker, Lister and Forgetter. It starts
// no goroutines and judges time by time.Now, so that it runs on the virtual clock of a testing/synctest bubble.
//
// Expired records are absent at once but hold their memory until they are reserved anew or purged: a program
// that runs for long runs [store.PurgeEvery] in a goroutine of its own.
package memstore
