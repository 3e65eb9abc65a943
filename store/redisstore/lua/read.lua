-- Sets r to the record, or to false if there is none. The engine hides a record that has expired. Sets bad to an error
-- if the key holds no record of this format, and damaged if no other release wrote it.
local r, bad, damaged = redis.pcall('GET', record), nil, false
if type(r) == 'table' then
  bad, damaged = r, sub(r.err, 1, 9) == 'WRONGTYPE'
  if damaged then bad = redis.error_reply('REDODAMAGED the key holds no string') end
elseif r and (sub(r, 1, 5) ~= 'redo2' or #r < 114) then
  local version = string.match(r, '^redo(%d)')
  damaged = not version or version == '2'
  bad = redis.error_reply(damaged and 'REDODAMAGED the key holds no whole record' or
    'REDOFORMAT the record is of format ' .. version .. ', this release reads format 2')
end
