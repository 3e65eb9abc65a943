// Command benchmarks measures redo beside its peers, on the same machine and in the same run, because only the
// ratios mean anything on another machine.
//
//	go run ./benchmarks           everything, a minute or more
//	go run ./benchmarks -quick    everything, coarsely, in seconds
//	go run ./benchmarks -run 'memory|large' -rounds 41
//
//	go run ./benchmarks -run scale      tables of 10,000 and of 10,000,000 records, some minutes and 5 GB in Postgres
//
// A scenario named after an engine runs if that engine responds. REDO_TEST_POSTGRES and REDO_TEST_REDIS name the
// engines. Without them the program looks on this machine. It makes a schema or a prefix there, and removes it.
//
// In each scenario the contestants take turns, round after round, so that other load on the machine meets all of
// them. Every other round goes backwards. A figure is the median over the rounds, with the least and the greatest
// beside it. A ratio is the median of the ratios within each round, with its quartiles beside it. The targets that
// redo sets itself come last. With -check a missed one makes the exit status 1.
//
// The clients are compared with peers of the same promise. "+ key + deadline" marks a contestant that gets a new key
// and a deadline for each call. redo.Do does so by default.
//
// Files are written to the temporary directory, or to -dir: on a file system in memory a sync costs nothing, and the
// durable scenarios say nothing.
//
// With -benchstat FILE each round is also a line for benchstat. The same bodies are ordinary benchmarks, for profiles
// and for benchstat too:
//
//	go run ./benchmarks -run memory -benchstat new.txt
//	go test -run '^$' -bench . -count 6 ./benchmarks > new.txt
//	benchstat -col /by new.txt
//
// Package contest runs the scenarios. The command benchmarks/peers measures more peers.
//
// The module is never released, so the peers that it measures bind no user.
package main
