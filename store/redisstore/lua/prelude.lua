-- Stands before every script. All scripts run under the server's clock, in microseconds, and touch nothing but the
-- keys of one slot. A record is a hash: v version, s state (p, c or f), p fingerprint, f fence, l end of the lease
-- (0: none), c creation, x expiry (0: never), m meta, r result, w whether somebody waits. An absent m or r is nil.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(n) return string.format('%.0f', n) end

-- read returns the record, nil where there is none or it has expired. The second value is the expired record or
-- nil, the third an error reply for what is not a record of this version.
local function read(record)
  local r = redis.pcall('HMGET', record, 's', 'p', 'f', 'l', 'c', 'x', 'm', 'r', 'w', 'v')
  if r.err then return nil, nil, r end
  if r[10] ~= '1' then
    if r[10] or redis.call('EXISTS', record) == 1 then
      return nil, nil, redis.error_reply('REDOFORMAT the key holds no record of version 1')
    end
    return nil
  end
  local x = tonumber(r[6])
  if x ~= 0 and x <= now then return nil, r end
  return r
end

-- pendingUnder returns the pending record under the fence, or nil and the reply that says why not.
local function pendingUnder(record, fence)
  local r, _, bad = read(record)
  if bad then return nil, bad end
  if not r or r[1] ~= 'p' or r[3] ~= fence then return nil, 'lost' end
  return r
end

-- member names a record in the index of its shard: the creation time, in digits of one length, then the ID.
local function member(created, id) return string.format('%020.0f', created) .. id end

-- index sets under which expiry a pending record is listed.
local function index(pending, created, id, x)
  redis.call('ZADD', pending, x == 0 and '+inf' or text(x), member(created, id))
end

-- expire lets the engine delete the record, a moment after it has expired by its own field.
local function expire(record, x)
  if x == 0 then
    redis.call('PERSIST', record)
  else
    redis.call('PEXPIREAT', record, text(math.ceil(x / 1000)))
  end
end

-- expiry is the end of a retention, which -1 makes endless, but not before the lease's end.
local function expiry(retention, lease)
  if retention < 0 then return 0 end
  return math.max(now + retention, lease)
end

-- wake tells those who wait for a record that it is not pending under that fence any more. Who may not publish has
-- waiters that look for themselves.
local function wake(r, channel, record, fence)
  if r[9] then redis.pcall('PUBLISH', channel, fence .. ' ' .. record) end
end

-- answer is what Go reads a record from.
local function answer(verdict, r)
  return {verdict, text(now), r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}
end
