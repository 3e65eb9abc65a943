-- Sets bad to an error if a field of the record r can't be read.
do
  local length, owner = sub(r, 106, 112), tonumber(sub(r, 113, 114))
  local meta = length == '-------' and 0 or not string.find(length, '%D') and tonumber(length)
  local rest = owner and meta and #r - 114 - owner - meta or -1
  local mark = string.match(r, '^redo2p[w-]') and rest == 0 or string.match(r, '^redo2[cf]%-') and rest == 0 or
    string.match(r, '^redo2[cf]%+') and rest >= 0
  if not mark or string.find(sub(r, 8, 72), '%D') or sub(r, 8, 26) > '9223372036854775807' then
    bad = redis.error_reply('REDODAMAGED the key holds no whole record')
  end
end
