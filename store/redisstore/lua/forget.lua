--@ prelude
--@ read
if bad then return bad end
if not r or sub(r, 6, 6) == 'p' or sub(r, 8, 26) ~= ARGV[1] then return 'lost' end
redis.call('DEL', record)
return 'ok'
