-- read returns the record, nil where there is none or it has expired. The second value is an error reply for what is
-- not a record of this format.
local function read(record)
  local r = redis.pcall('GET', record)
  if not r then return nil end
  if type(r) == 'table' then return nil, r end
  if sub(r, 1, 5) ~= 'redo1' or #r < 117 then
    return nil, redis.error_reply('REDOFORMAT the key holds no record of format 1')
  end
  local x = tonumber(sub(r, 68, 84))
  if x ~= 0 and x <= now then return nil end
  return r
end
