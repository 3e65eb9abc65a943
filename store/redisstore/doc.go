// Package redisstore is a [store.Store] in Redis 6.2 or later, or in Valkey, alone, behind Sentinel or as a cluster, through
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
//     reservation lets a second owner in beside the first, a lost completion lets the work run again once the lease
//     is over, a lost take-over leaves the earlier owner in its place. That is all: a lease from the lost history fits
//     no record that was reserved since. A fence holds the server's time in microseconds, and chance where that can't tell
//     two histories apart, so that one in a million such leases would fit, and only while the promoted server's clock
//     is behind what the lost one gave out. Fences keep growing over a failover unless that clock is behind; then what
//     is fenced downstream may see smaller ones until it has caught up. [WithReplicas] narrows the loss and does not
//     close it.
//   - A primary without appendonly that restarts before it is failed over comes back empty, and its replicas follow it.
//   - Eviction would delete records and so let work run twice. Open and New refuse a server whose maxmemory-policy is not
//     noeviction, unless [AllowEviction] says otherwise. A full server refuses new claims and take-overs with
//     store.ErrUnavailable, and still lets owners renew, complete and release.
//
// Where an effect must never be doubled by the loss of a machine, keep the record with the effect in one transactional
// database.
//
// # Errors
//
// A call that never reached the server, or that the server refused, is store.ErrUnavailable. Once a write was handed to
// the connection and no answer came, whether the connection broke or the context ended first, it is store.ErrUnknown,
// beside the context's error if that was the reason. A server that takes no writes, since it could not write its last
// snapshot, say, still replays results and lists what is pending. Reads change nothing and so are never unknown. Callers that need a
// connection share the dial of whoever comes first; when that one gives up, the others' calls are sent again.
//
// Redirections of a cluster are followed. While it moves a slot it may refuse that slot's scripts for want of some of
// their keys; a call waits for the move for 1.3 seconds and is then unavailable.
//
// # Layout
//
// A record is one string, with the time to live of its own retention. IDs are spread over 256 shards; a shard's records
// and the index of what is pending in it, which also holds the fence given out last, share a hash tag, so that a script
// changes them together on a cluster too, and a list of what is pending scans no keyspace and is exact.
//
// Keys and channel begin with the prefix, "redo" unless [WithPrefix] says otherwise. A user with access to them alone
// (~redo:* &redo:*) is enough who may run HELLO, PING, CLIENT, CLUSTER, EVALSHA, EVAL, CONFIG GET or INFO, ZRANGE,
// SUBSCRIBE and UNSUBSCRIBE, WAIT for WithReplicas, and what the scripts call: DEL, GET, PUBLISH, SET, SETRANGE, TIME,
// ZADD, ZCOUNT, ZRANGEBYSCORE, ZREM, ZREMRANGEBYSCORE and ZSCORE. All of these have to be allowed: a script that is
// refused one of them has carried out those before it.
package redisstore
