// Soak runs clients against a service over a lossy network for a long time, at full load, on one store. It samples the
// process once per period, and fails if goroutines, memory, file descriptors or the store still grow in the second half
// of the run. The size of a store is that of its files, of its tables, or of the memory of its Redis. Soak also fails
// if an operation has no effect or two.
//
//	go run ./verify/soak -for 1h                               a boltstore file
//	go run ./verify/soak -for 1h -store sqlite                 a SQLite file; also memory and pebble
//	go run ./verify/soak -for 1h -store postgres               an installed server; also redis and mysql
//	go run ./verify/soak -for 1h -store "$REDO_TEST_POSTGRES"  the server of a URL, of Postgres or of Redis
//	go run ./verify/soak -pending 100000                       resume 100,000 operations of a crashed client
//	go run ./verify/soak -upload 1073741824                    stream an upload of 1 GiB through a gateway
//
// Client and service share the store, each in a scope of its own. Their records live for -retention, so that the number
// of records is constant after that time.
package main
