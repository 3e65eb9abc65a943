-- Writes the record r. The engine deletes it when it expires.
if expires == never then redis.call('SET', record, r) else redis.call('SET', record, r, 'PXAT', expires) end
