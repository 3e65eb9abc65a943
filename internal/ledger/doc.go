// Package ledger is the smallest store.TxStore, for tests: an engine in memory whose transactions add entries, and
// whose records commit with them. It is written to be read beside the contract, and not to be fast.
//
// It treats a record that an open transaction holds as a database treats a locked row. Begin and Reserve return
// InFlight, other writes wait until the transaction ends, and readers see the committed record.
package ledger
