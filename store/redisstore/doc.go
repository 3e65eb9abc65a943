// Package redisstore is a [store.Store] in Redis 6.2 or later, or in Valkey, alone, behind Sentinel or as a cluster,
// through [github.com/redis/rueidis]. [Open] connects, and [New] takes a client that the program already has. Pass the
// store to redo.WithStore or server.Middleware.
//
//	st, err := redisstore.Open(ctx, "redis://:secret@localhost:6379/0")
//
// # What is promised, and what is not
//
// Every transition is one script, which runs atomically on the primary, in one round trip, by the server's clock. How
// much of it survives depends on the server:
//
//   - With appendonly yes and appendfsync always, every acknowledged write survives a crash of the server. With
//     everysec, the usual setting, a crash can lose about a second of writes. Without appendonly it loses everything
//     since the last snapshot.
//   - Replication is asynchronous. A failover can lose the last acknowledged writes, so that work runs twice.
//     docs/failover.md lists the possible losses and the remaining guarantees of fences. [WithReplicas] narrows the
//     loss.
//   - Eviction would delete records and so let work run twice. Open and New refuse a server whose maxmemory-policy is
//     not noeviction, unless [AllowEviction] is given. A full server refuses new claims and take-overs with
//     store.ErrUnavailable. Owners can still renew, complete and release.
//
// If the loss of a machine must never double an effect, keep the record with the effect in one transactional database.
//
// # Errors
//
// A call that was not sent, or that the server refused, is store.ErrUnavailable. A write that was sent and whose
// response was lost is store.ErrUnknown. If the context ended, the error wraps the context's error too. Reads change
// nothing and so are never unknown. A server that refuses writes, for example because it could not write its last
// snapshot, still returns results and lists pending records. A replica refuses Find too, because it may be behind.
// Callers that need a connection share one dial. If the context of the caller that dials ends, the calls of the others
// are sent again.
//
// A record that a newer release wrote is ErrFormat and store.ErrUnavailable: the middleware responds with 503, and a
// retry can reach a process of the newer release.
//
// The client follows the redirections of a cluster. While a cluster moves a slot, it may refuse the scripts of that
// slot. A call waits for the move for 1.3 seconds and is then unavailable.
//
// # Layout
//
// A record is one string, which expires with its retention. IDs are spread over 256 shards by a keyed hash, so that no
// caller can load one shard by its choice of keys. The first store under a prefix creates the hash's secret and keeps
// it on the server, in the key "redo:layout". The records of a shard and their index share a hash tag. A script
// changes them together, also on a cluster. The index lists the pending records and holds the last fence, so that
// Pending is exact and scans no keyspace.
//
// Keys and channel begin with the prefix, "redo" unless [WithPrefix] sets another. A user with access to them
// (~redo:* &redo:*) is enough. It needs HELLO, PING, CLIENT, CLUSTER, EVALSHA, EVAL, CONFIG GET or INFO, GETRANGE,
// ZRANGE, SUBSCRIBE and UNSUBSCRIBE, and WAIT for WithReplicas. It also needs the commands of the scripts: DEL,
// GET, PUBLISH, SET, SETRANGE, TIME, ZADD, ZCOUNT, ZRANGEBYSCORE, ZREM and ZSCORE. Allow all of them: if the
// server refuses one of a script's commands, the earlier ones have already run. With WithReplicas, rueidis also sends
// PUNSUBSCRIBE, SUNSUBSCRIBE and DISCARD. They are not needed, but the server's ACL LOG has an entry for each refusal.
package redisstore
