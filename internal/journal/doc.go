// Package journal keeps the operations of a client in a store.
//
// A [Journal] reads and writes their records. An [Entry] is a record that was read and decoded. It holds a
// [Request], the first request with its key, and a [Settlement], the end of the operation. A [Description] is the
// part of a request that gives it its meaning: it is hashed into the fingerprint, and stored without credentials.
//
// The bytes of both envelopes outlive the program that wrote them. A record of another version is an error, and never a
// reason to run an operation anew.
package journal
