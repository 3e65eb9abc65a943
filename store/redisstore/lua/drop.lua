--@ prelude
--@ read
if bad and not damaged then return bad end
--@ marked
if not r then return 'absent' end
if not bad then
  --@ whole
  if not bad then return 'sound' end
end
redis.call('ZREM', pending, record)
redis.call('DEL', record)
return 'ok'
