-- The engine deletes expired records. Their places in the index of pending records remain. A limit of 0 counts them and
-- removes none.
--@ prelude
--@ clock
local limit = ARGV[1]
if limit == '0' then return redis.call('ZCOUNT', pending, 0, format('(%d', now / 1000)) end
--@ tidy
return #expired
