-- Returns the record. The arguments may be the layout's mark, and "w", which marks a pending record as one with waiters.
--@ prelude
--@ clock
if ARGV[1] then
  -- This changes nothing, and only a replica must refuse it: a replica may be behind.
  local replica = redis.pcall('ZREM', pending, '')
  if type(replica) == 'table' and sub(replica.err, 1, 8) == 'READONLY' then return replica end
end
--@ read
if bad then return bad end
--@ marked
-- A full server refuses the mark. The waiters poll then.
if r and ARGV[2] and sub(r, 6, 7) == 'p-' then redis.pcall('SETRANGE', record, 6, ARGV[2]) end
return r and { 'r' .. stamp, r }
