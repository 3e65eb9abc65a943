local record, pending = KEYS[1], KEYS[2]
local id, fence, channel, state, retention = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local result = ARGV[6] -- nil: there is none

local r, no = pendingUnder(record, fence)
if not r then return no end
-- Not refused for want of memory, since this comes first: the work is done, and its result worth more than a new claim.
redis.call('ZREM', pending, sub(r, 52, 67) .. id)
wake(r, channel, record)
local flag = result and '+' or '-'
result = result or ''
if retention == '0' then -- keeps the claim's expiry
  redis.call('SET', record, 'redo1' .. state .. '-' .. sub(r, 8, 14) .. flag .. fence .. zero .. sub(r, 52) .. result, 'KEEPTTL')
else
  local x = expiry(tonumber(retention), 0)
  put(record, 'redo1' .. state .. '-' .. sub(r, 8, 14) .. flag .. fence .. zero .. sub(r, 52, 67) .. moment(x) .. sub(r, 85) .. result, x)
end
return 'ok'
