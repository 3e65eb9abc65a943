local record, pending = KEYS[1], KEYS[2]
local id = ARGV[1]

local r, bad, damaged = read(record)
if bad and not damaged then return bad end
if not damaged then return r and 'sound' or 'absent' end
-- A damaged record does not show its creation, with which its place in the index begins.
for _, m in ipairs(redis.call('ZRANGEBYSCORE', pending, 0, '+inf')) do
  if sub(m, 17) == id then redis.call('ZREM', pending, m) end
end
redis.call('DEL', record)
return 'ok'
