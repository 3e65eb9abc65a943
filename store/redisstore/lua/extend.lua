local record, pending = KEYS[1], KEYS[2]
local id, fence, duration = ARGV[1], ARGV[2], tonumber(ARGV[3])
local length, meta = ARGV[4], ARGV[5] -- nil: keep what there is

local r, no = pendingUnder(record, fence)
if not r then return no end
-- Changes nothing. It comes first since a script that has begun to write is not refused for want of memory: an owner that
-- could not renew would have its work begun again, beside it, as soon as there is room.
redis.call('ZREM', pending, '')
local lease = duration > 0 and now + duration or 0
local created, x = sub(r, 52, 67), tonumber(sub(r, 68, 84))
local moves = x ~= 0 and x < lease
if moves then
  x = lease
  redis.call('ZADD', pending, score(moment(x)), created .. id)
end
if moves or meta then
  put(record, sub(r, 1, 7) .. (length or sub(r, 8, 14)) .. sub(r, 15, 34) .. moment(lease) .. created .. moment(x) ..
    sub(r, 85, 117) .. (meta or sub(r, 118)), x)
else
  redis.call('SETRANGE', record, 34, moment(lease)) -- a heartbeat, which is not to write the meta again
end
return 'ok'
