// Package sim runs clients, gateways, servers, relays and consumers in virtual time, under seeded faults, and
// checks their promises. The parts are the real ones. The network, the processes and the database are simulated.
//
//	go test ./verify/sim                                              200 seeds, and every planted defect
//	go test ./verify/sim -run 'TestSeeds$' -seeds 100000 -timeout 0   a long run
//	go test ./verify/sim -run 'TestSeed$' -seed=7 -v                  one seed, with its event log
//
// # Worlds
//
// A seed draws a world: how many processes of each kind there are, how effects are recorded, and which faults
// happen. A request goes from an app or a phone, through a gateway or not, to a server. The server's effect puts
// an event into an outbox. A relay delivers it to a consumer, which handles it in its own transaction.
//
// Faults stop after a while, and dead processes start again. Then every operation must come to its end.
//
// # Determinism
//
// The clock of a testing/synctest bubble moves only when every goroutine is blocked. Each call to a network, a store
// or a queue first sleeps for a latency of some random nanoseconds. Two goroutines then practically never wake at the
// same instant, and the virtual clock orders all decisions. A decision is drawn from the seed, the process, the place
// and the instant. It does not depend on the order in which goroutines ran. The jitter of client, server and relay
// comes from the seed and the instant too: see package internal/chance.
//
// Two things are left to the Go scheduler. One is the order of goroutines that wake at the same instant, for example
// after a kill. The other is the choice of a select with several ready cases. TestReplay plays seeds twice and compares
// the event logs.
//
// The clock of the database can jump. The clock of a process can't: a bubble has one.
package sim
