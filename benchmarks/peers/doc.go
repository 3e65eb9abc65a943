// Command peers measures redo beside other libraries, in one run:
//
//		go run ./benchmarks/peers
//		go run ./benchmarks/peers -run client -benchstat new.txt -docs docs/performance.md
//
//	  - client: one POST with a new key and a deadline, through redo and through other clients.
//	  - durable: an operation that is saved and completed durably, in redo's stores and in the engines alone.
//	  - middleware: one POST to a service over loopback, with redo's middleware and with fiber's.
//
// The flags are those of the command benchmarks. With -docs the tables in the page are replaced whose scenarios have
// all been measured.
//
// The promises of the clients and of the middleware differ. The tests observe them on a faulty server, and compare the
// result with the tables in docs/performance.md. With REDO_TEST_UPDATE=1 they write these tables:
//
//	REDO_TEST_UPDATE=1 go test -run Promises ./benchmarks/peers
//
// The same bodies are ordinary benchmarks, for profiles:
//
//	go test -run '^$' -bench 'Scenario/client-loopback/by=redo.Do$' -cpuprofile cpu.out ./benchmarks/peers
//
// This module is separate from the benchmarks, because it requires all of its peers. It is never released.
package main
