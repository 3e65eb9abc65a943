local record, pending = KEYS[1], KEYS[2]
local id, fence, channel = ARGV[1], ARGV[2], ARGV[3]

local r, no = pendingUnder(record, fence)
if not r then return no end
redis.call('ZREM', pending, sub(r, 52, 67) .. id)
wake(r, channel, record)
redis.call('DEL', record)
return 'ok'
