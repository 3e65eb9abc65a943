local record, pending = KEYS[1], KEYS[2]
local id, print, channel = ARGV[1], ARGV[2], ARGV[3]
local duration, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
local chance = ARGV[6] -- six digits
local length, meta = ARGV[7], ARGV[8] -- dashes and nothing: the claim has none

local r, bad = read(record)
if bad then return bad end
if r then
  if sub(r, 85, 117) ~= print then return answer('m', r) end
  local state = sub(r, 6, 6)
  if state ~= 'p' then return answer(state, r) end
  if tonumber(sub(r, 35, 51)) > now then return answer('i', r) end
end

local lease = duration > 0 and now + duration or 0
local x = expiry(retention, lease)
local ends, expires = moment(lease), moment(x)
local count = stamp()
local created = r and sub(r, 52, 67) or count

-- A fence is a count and three digits of chance. The count grows for the whole shard, so that it does for each ID
-- whatever became of its record: the index holds the last one, negative, as the score of '#'. Time keeps it growing
-- where a failover has lost the last of them. Where the clock is behind, it steps on by chance: a count that went on by
-- one would give again what the lost history has given.
--
-- The index comes first: where it can't be written, for want of memory, say, nothing is. As a rule the claim is new
-- and the clock is ahead, so that both places change.
if r or redis.call('ZADD', pending, 'LT', 'CH', score(expires), created .. id, '-' .. count, '#') ~= 2 then
  local last = math.max(-tonumber(redis.call('ZSCORE', pending, '#') or 0), r and tonumber(sub(r, 16, 31)) or 0)
  if now <= last then count = format('%016.0f', last + 1 + tonumber(sub(chance, 1, 3))) end
  redis.call('ZADD', pending, score(expires), created .. id, '-' .. count, '#')
end

local tail = count .. sub(chance, 4) .. ends .. created .. expires .. print
if r then
  wake(r, channel, record)
  r = 'redo1p-' .. sub(r, 8, 15) .. tail .. sub(r, 118)
  put(record, r, x)
  return answer('t', r)
end
put(record, 'redo1p-' .. length .. '-' .. tail .. meta, x)
-- What has expired in this shard needs no listing, and no sweeper: one claim in some does away with it.
if now % 8 == 0 then redis.call('ZREMRANGEBYSCORE', pending, 0, now) end
return 'a' .. created .. 'redo1p-' .. length .. '-' .. tail -- the meta is not sent back
