-- Begins every script. A line "--@ name" includes another file: functions would cost time in each run.
--
-- A script touches the keys of one slot only, and judges by the server's clock in microseconds. A record is one string:
-- fields of fixed width, then the owner, the meta and the result.
--
--   1-5   redo2, the format                    60-72   last millisecond of the record's life, 0: never expires
--   6     state: p, c or f                     73-105  fingerprint, raw bytes
--   7     p: w has waiters, - has none         106-112 length of the meta, dashes: nil
--         c, f: + has a result, - has none     113-114 length of the owner
--   8-26  fence: 16 digits count, 3 random     115-    owner, meta, result
--   27-43 end of the lease, 0: no lease                (a settled record keeps the bytes of the lease
--   44-59 creation                                     and the owner; they mean nothing there)
--
-- Lua hashes each string that it makes, byte by byte, so the scripts make few. They check the fields that they judge
-- by. Go checks every field of each record that it reads.
local record, pending = KEYS[1], KEYS[2]
local sub, format = string.sub, string.format
local never = '0000000000000'
