// Soak runs clients against a service over a lossy network for a long time, at full load, on one store. It samples the
// process once per period, and fails if goroutines, memory, file descriptors or the store's files still grow in the
// second half of the run. It also fails if an operation has no effect or two.
//
//	go run ./verify/soak -for 1h                               a boltstore file
//	go run ./verify/soak -for 1h -store sqlite                 a SQLite file
//	go run ./verify/soak -for 1h -store "$REDO_TEST_POSTGRES"  Postgres, or a URL of Redis
//	go run ./verify/soak -pending 100000                       resume 100,000 operations of a crashed client
//	go run ./verify/soak -upload 1073741824                    stream an upload of 1 GiB through a gateway
//
// Client and service share the store, each in a scope of its own. Their records live for -retention, so that the number
// of records is constant after that time.
package main
