// Package orms proves that ORMs, query builders and a job queue run in the transaction that a store hands out. Its
// tests run each real library in a handler with server.Transactional, over Postgres, MariaDB and SQLite.
//
// Each library is a value of type library, in a file named after it. The promises that hold for every library are in
// promises_test.go. docs/orms.md has the wirings.
//
//	go test ./verify/orms
//
// The module is never released, so the libraries are no dependencies of redo.
package orms
