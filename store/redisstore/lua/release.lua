--@ prelude
local fence = ARGV[1]

--@ owned
redis.call('ZREM', pending, record)
--@ wake
redis.call('DEL', record)
return 'ok'
