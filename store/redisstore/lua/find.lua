--@ prelude
--@ clock
--@ read
if bad then return bad end
return r and { 'r' .. stamp, r }
