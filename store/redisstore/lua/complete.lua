local record, pending = KEYS[1], KEYS[2]
local id, fence, channel, state, retention = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local result = ARGV[6] -- nil: there is none

local r, no = pendingUnder(record, fence)
if not r then return no end
-- Not refused for want of memory, since this comes first: the work is done, and its result worth more than a new claim.
redis.call('ZREM', pending, member(tonumber(r[5]), id))
wake(r, channel, record, fence)
if result then
  redis.call('HSET', record, 's', state, 'l', '0', 'r', result)
else
  redis.call('HSET', record, 's', state, 'l', '0')
end
if r[9] then redis.call('HDEL', record, 'w') end
if retention ~= 0 then -- 0 keeps the claim's expiry
  local x = expiry(retention, 0)
  redis.call('HSET', record, 'x', text(x))
  expire(record, x)
end
return 'ok'
