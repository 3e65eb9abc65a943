-- Counts what a shard lists and has expired.
return redis.call('ZCOUNT', KEYS[1], 0, now)
