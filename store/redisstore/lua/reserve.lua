--@ prelude
--@ clock
local lease, life, random = ARGV[1], ARGV[2], ARGV[3] -- microseconds, microseconds, six digits
local claim, layout = ARGV[4], ARGV[5] -- the claim's fields from the fingerprint on, the layout's mark

-- The verdict is that of store.Judge.
--@ read
if bad then return bad end
if r then
  local expires, ends = tonumber(sub(r, 60, 72)), tonumber(sub(r, 27, 43))
  if expires and expires > 0 and expires + 1 <= now / 1000 then
    r = false
  elseif sub(r, 73, 105) ~= sub(claim, 1, 33) then
    return { 'm' .. stamp, r }
  elseif sub(r, 6, 6) ~= 'p' then
    return { sub(r, 6, 6) .. stamp, r }
  elseif not expires or not ends or ends > now then -- Go reports the damage of a field that is no number
    return { 'i' .. stamp, r }
  else
    --@ whole
    if bad then return bad end
  end
end

local ends = lease == '0' and '00000000000000000' or format('%017d', now + lease)
--@ expiry
local count = stamp

-- A fence is a count and three random digits. The count grows for the whole shard, and so for each ID, over release and
-- expiry too: the index holds the last one as the score of '#'. It is the clock as a rule. If the clock was set back,
-- the count grows by a random step: docs/failover.md explains why.
--
-- The index also holds the mark of the layout that it belongs to, as the member of score -inf. A shard without it gets
-- no record.
--
-- The index is written first: if that fails, for example for lack of memory, nothing is written. As a rule the claim
-- is new and the clock is ahead, so that two members change.
if not r and not redis.call('ZSCORE', pending, layout) then
  return redis.error_reply('REDOLAYOUT the shard does not belong to the layout')
end
local changed = not r and redis.call('ZADD', pending, 'GT', 'CH', score, record, count, '#')
if changed ~= 2 then
  local last = math.max(tonumber(redis.call('ZSCORE', pending, '#') or 0), r and tonumber(sub(r, 8, 23)) or 0)
  if now <= last then count = format('%016d', last + 1 + tonumber(sub(random, 1, 3))) end
  redis.call('ZADD', pending, score, record, count, '#')
end

local fence = count .. sub(random, 4)
if r then
  --@ wake
  local owner, former = tonumber(sub(claim, 41, 42)), tonumber(sub(r, 113, 114))
  r = 'redo2p-' .. fence .. ends .. sub(r, 44, 59) .. expires .. sub(r, 73, 112) .. sub(claim, 41, 42 + owner) ..
    sub(r, 115 + former)
  --@ put
  return { 't' .. stamp, r }
end
local head = 'redo2p-' .. fence .. ends .. stamp .. expires
r = head .. claim
--@ put
if now % 8 == 0 then -- a creation frees two expired records on average
  local limit = 16
  --@ tidy
end
return head -- the claim is not sent back
