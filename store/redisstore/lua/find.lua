-- Returns the record. The arguments may be the layout's mark, and "w", which marks a pending record as one with waiters.
--@ prelude
--@ clock
--@ read
if bad then return bad end
--@ marked
-- A full server refuses the mark. The waiters poll then.
if r and ARGV[2] and sub(r, 6, 7) == 'p-' then redis.pcall('SETRANGE', record, 6, ARGV[2]) end
return r and { 'r' .. stamp, r }
