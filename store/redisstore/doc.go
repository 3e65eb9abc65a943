// Package redisstore is a [store.Store] in Redis or Valkey, alone, behind Sentinel or as a cluster, through
// [github.com/redis/rueidis]. [Open] connects and [New] takes a client that the program already holds; the store is
// then handed to redo.WithStore or server.Middleware.
//
//	st, err := redisstore.Open(ctx, "redis://:secret@localhost:6379/0")
//
// # What is promised, and what is not
//
// Every transition is one script that runs atomically on the primary, in one round trip, by the server's clock.
// How much of it survives is the engine's promise and not this package's:
//
//   - With appendonly yes and appendfsync always, what a call returned from survives a crash of the server. With
//     everysec, the usual setting, about a second of it can be lost, without appendonly everything since the last snapshot.
//   - Replication is asynchronous. A failover can lose the last writes, also those that were acknowledged: a lost
//     reservation lets a second owner in beside the first, a lost completion lets the work run again.
//   - Eviction would delete records and so let work run twice. Open and New refuse a server whose maxmemory-policy is not
//     noeviction, unless [AllowEviction] says otherwise. A full server refuses new claims with store.ErrUnavailable, and
//     still lets owners complete.
//
// Where an effect must never be doubled by the loss of a machine, keep the record with the effect in one transactional
// database.
//
// # Errors
//
// A call that never reached the server, or that the server refused, is store.ErrUnavailable. Once a write was handed to
// the connection and no answer came, whether the connection broke or the context ended first, it is store.ErrUnknown,
// beside the context's error if that was the reason. Reads change nothing and so are never unknown.
//
// # Layout
//
// A record is one hash, with the time to live of its own retention. IDs are spread over 256 shards; a shard's records,
// the index of what is pending in it and the fence it has given out last share a hash tag, so that a script changes
// them together on a cluster too, and a list of what is pending scans no keyspace and is exact. Keys and channel begin
// with the prefix, "redo" unless [WithPrefix] says otherwise; a user with access to them alone (~redo:* &redo:*) and the commands
// of the scripts, EVALSHA, EVAL and CONFIG GET or INFO, is enough.
package redisstore
