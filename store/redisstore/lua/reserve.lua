local record, pending, fences = KEYS[1], KEYS[2], KEYS[3]
local id, print, channel = ARGV[1], ARGV[2], ARGV[3]
local duration, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
local meta = ARGV[6] -- nil: the claim has none

local r, expired, bad = read(record)
if bad then return bad end
if r then
  if r[2] ~= print then return answer('mismatch', r) end
  if r[1] == 'c' then return answer('complete', r) end
  if r[1] == 'f' then return answer('failed', r) end
  if tonumber(r[4]) > now then return answer('in flight', r) end
end

-- The fence grows for the whole shard, so that it does for each ID whatever became of its record. Time keeps it growing
-- where a failover has lost the last of them, the count where the clock was set back.
local taken, earlier = r ~= nil, r or expired
local last = math.max(tonumber(redis.call('GET', fences) or 0), tonumber(earlier and earlier[3] or 0))
local fence = text(math.max(last + 1, now))
local lease = duration > 0 and now + duration or 0
local x = expiry(retention, lease)
local created = r and tonumber(r[5]) or now

-- The index comes first: where it can't be written, for want of memory, say, nothing is.
index(pending, created, id, x)
if taken then
  wake(r, channel, record, r[3])
  r[3], r[4], r[6] = fence, text(lease), text(x)
  redis.call('HSET', record, 'f', fence, 'l', r[4], 'x', r[6])
  if r[9] then redis.call('HDEL', record, 'w') end
else
  if expired then redis.call('DEL', record) end
  r = {'p', print, fence, text(lease), text(now), text(x), false, false}
  if meta then
    redis.call('HSET', record, 'v', '1', 's', 'p', 'p', print, 'f', fence, 'l', r[4], 'c', r[5], 'x', r[6], 'm', meta)
  else
    redis.call('HSET', record, 'v', '1', 's', 'p', 'p', print, 'f', fence, 'l', r[4], 'c', r[5], 'x', r[6])
  end
  -- What has expired in this shard needs no listing, and no sweeper: one claim in some does away with it.
  if now % 8 == 0 then redis.call('ZREMRANGEBYSCORE', pending, '-inf', text(now)) end
end
if x ~= 0 or taken then expire(record, x) end
redis.call('SET', fences, fence)
return answer(taken and 'taken over' or 'acquired', r)
