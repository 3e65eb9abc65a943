-- Returns the record. With the argument "w" it marks a pending record as one with waiters.
--@ prelude
--@ clock
--@ read
if bad then return bad end
-- A full server refuses the mark. The waiters poll then.
if r and ARGV[1] and sub(r, 6, 7) == 'p-' then redis.pcall('SETRANGE', record, 6, ARGV[1]) end
return r and { 'r' .. stamp, r }
