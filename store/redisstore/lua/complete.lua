--@ prelude
local fence, head, result, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- microseconds, nil: keep the claim's expiry

--@ owned
-- This comes first, because a script that has begun to write is not refused for lack of memory. The work is done, and
-- its result is worth more than a new claim.
redis.call('ZREM', pending, record)
--@ wake
if not life then
  redis.call('SET', record, head .. sub(r, 8) .. result, 'KEEPTTL')
else
  --@ clock
  --@ expiry
  r = head .. sub(r, 8, 59) .. expires .. sub(r, 73) .. result
  --@ put
end
return 'ok'
