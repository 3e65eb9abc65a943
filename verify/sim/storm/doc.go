// Package storm shows what retry policies do to a server: its load in an outage and after it, the work that contention
// causes, and the use of a quota. Clients are the real ones, in virtual time, where they can be called.
//
//	go test ./sim/storm                                   checks redo's figures
//	go test ./sim/storm -run TestPictures -plots ../docs/proof   makes the plots and prints the tables
package storm
