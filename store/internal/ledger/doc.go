// Package ledger is the smallest store.TxStore, for tests: an engine in memory whose transactions add entries, and
// whose records commit with them. It is written to be read beside the contract, and not to be fast.
//
// What it does with a record that an open transaction holds is what a database does with a locked row: Begin and
// Reserve are told that it is in flight, those who would move it on wait until the transaction is over, and readers see
// what is committed.
package ledger
