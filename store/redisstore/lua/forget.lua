local record, fence = KEYS[1], ARGV[1]

local r, _, bad = read(record)
if bad then return bad end
if not r or r[1] == 'p' or r[3] ~= fence then return 'lost' end
redis.call('DEL', record)
return 'ok'
