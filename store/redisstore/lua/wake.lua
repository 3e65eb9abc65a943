-- Publishes that the record is no longer pending under its fence, if it has waiters. Waiters of a user without
-- permission to publish poll.
if sub(r, 7, 7) == 'w' then redis.pcall('PUBLISH', string.match(pending, '^(.*):{') .. ':wake', record) end
