-- The engine deletes expired records by itself. What goes here is their place in the index of what is pending.
local pending, limit = KEYS[1], ARGV[1]

local members = redis.call('ZRANGEBYSCORE', pending, 0, now, 'LIMIT', 0, limit)
for _, m in ipairs(members) do redis.call('ZREM', pending, m) end
return #members
