-- Marks a pending record as waited for, and says for how many microseconds it lives if nothing moves its expiry.
local record, fence = KEYS[1], ARGV[1]

local r, no = pendingUnder(record, fence)
if not r then return no end
-- A full server takes no mark; then the waiter looks by itself.
if not r[9] then redis.pcall('HSET', record, 'w', '1') end
local x = tonumber(r[6])
return x == 0 and 'forever' or text(x - now)
