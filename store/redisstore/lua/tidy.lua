-- Removes expired records from the index of pending records, as many as limit.
local expired = redis.call('ZRANGEBYSCORE', pending, 0, format('(%d', now / 1000), 'LIMIT', 0, limit)
for _, member in ipairs(expired) do redis.call('ZREM', pending, member) end
