local record, fence = KEYS[1], ARGV[1]

local r, bad = read(record)
if bad then return bad end
if not r or sub(r, 6, 6) == 'p' or sub(r, 16, 34) ~= fence then return 'lost' end
redis.call('DEL', record)
return 'ok'
