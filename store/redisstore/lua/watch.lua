-- Marks a pending record as one with waiters, and returns for how many milliseconds it lives. -1 is forever. It returns
-- "lost" if the record is not pending under the fence.
--@ prelude
local fence = ARGV[1]

--@ owned
-- A full server refuses the mark. The waiter polls then.
if sub(r, 7, 7) ~= 'w' then redis.pcall('SETRANGE', record, 6, 'w') end
return redis.call('PTTL', record)
