-- Marks a pending record as waited for, and says for how many microseconds it lives if nothing moves its expiry.
local record, fence = KEYS[1], ARGV[1]

local r, no = pendingUnder(record, fence)
if not r then return no end
-- A full server takes no mark; then the waiter looks by itself.
if sub(r, 7, 7) ~= 'w' then redis.pcall('SETRANGE', record, 6, 'w') end
local x = tonumber(sub(r, 68, 84))
return x == 0 and 'forever' or format('%.0f', x - now)
