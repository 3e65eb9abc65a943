-- read returns the record, nil if there is none or it has expired. The second value is an error reply if the key holds
-- no record that can be read, and the third is true if that one is damaged, and not of a later release.
local function read(record)
  local r = redis.pcall('GET', record)
  if not r then return nil end
  if type(r) == 'table' then
    if sub(r.err, 1, 9) ~= 'WRONGTYPE' then return nil, r end
    return nil, redis.error_reply('REDODAMAGED the key holds no string'), true
  end
  local head = sub(r, 1, 15)
  if string.find(head, '^redo[02-9]') then
    return nil, redis.error_reply('REDOFORMAT the record is not of format 1')
  end
  -- Go reads the fields again, but what a script judges by and writes back is judged before.
  local length = sub(head, 8, 14)
  local meta = length == '-------' and 0 or tonumber(length)
  local rest = meta and #r - 117 - meta or -1
  if not string.find(head, '^redo1[pcf][w-][%d-]*[+-]$') or string.find(sub(r, 16, 84), '%D') or meta < 0 or rest < 0 or
    rest > 0 and sub(head, 15) == '-' or sub(r, 16, 34) > '9223372036854775807' then
    return nil, redis.error_reply('REDODAMAGED the key holds no whole record'), true
  end
  local x = tonumber(sub(r, 68, 84))
  if x ~= 0 and x <= now then return nil end
  return r
end
