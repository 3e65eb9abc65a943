--@ prelude
--@ clock
local fence, life, length, meta = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- microseconds; no meta: keep the record's
local nobody = ARGV[5] -- the length of no owner; nil: keep the owner

--@ owned
--@ whole
if bad then return bad end
-- This changes nothing. It comes first, because a script that has begun to write is not refused for lack of memory: an
-- owner that can't renew loses its record to another owner as soon as there is room.
redis.call('ZREM', pending, '')
local ends = life == '0' and '00000000000000000' or format('%017d', now + life)
--@ expiry
local moves = sub(r, 60, 72) ~= never and tonumber(sub(r, 60, 72)) < last and life ~= '0'
if moves then
  redis.call('ZADD', pending, score, record)
else
  expires = sub(r, 60, 72)
end
if moves or meta then
  local owner = nobody or sub(r, 113, 114 + tonumber(sub(r, 113, 114)))
  r = sub(r, 1, 26) .. ends .. sub(r, 44, 59) .. expires .. sub(r, 73, 105) ..
    (meta and length .. owner .. meta or sub(r, 106))
  --@ put
else
  redis.call('SETRANGE', record, 26, ends) -- a heartbeat does not write the meta again
end
return 'ok'
