local record, pending = KEYS[1], KEYS[2]
local id, fence, duration = ARGV[1], ARGV[2], tonumber(ARGV[3])
local meta = ARGV[4] -- nil: keep what there is

local r, no = pendingUnder(record, fence)
if not r then return no end
local lease = duration > 0 and now + duration or 0
local x = tonumber(r[6])
local moved = x ~= 0 and x < lease
if moved then
  x = lease
  index(pending, tonumber(r[5]), id, x)
end
redis.call('HSET', record, 'l', text(lease), 'x', text(x))
if meta then redis.call('HSET', record, 'm', meta) end
if moved then expire(record, x) end
return 'ok'
