-- Stands before every script. All scripts run under the server's clock, in microseconds, and touch nothing but the
-- keys of one slot. A record is one string: a head of fields of fixed width, then the meta, then the result.
--
--   1-5   redo1, the format                   35-51   end of the lease, 0: none
--   6     state: p, c or f                    52-67   creation
--   7     w: somebody waits, - : nobody       68-84   expiry, 0: never
--   8-14  length of the meta, dashes: none    85-117  fingerprint, as it is
--   15    + : there is a result, - : none     118-    meta, result
--   16-34 fence
--
-- Fields are cut out of it and put together where they are needed: a call to the engine, and a table, cost more. So
-- does making a text of a number, so that a text that is there already is used again.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local sub, format = string.sub, string.format
local zero = '00000000000000000' -- no lease, or no expiry
