-- wake tells those who wait for a record that it is not pending under that fence any more. Who may not publish has
-- waiters that look for themselves.
local function wake(r, channel, record)
  if sub(r, 7, 7) == 'w' then redis.pcall('PUBLISH', channel, sub(r, 16, 34) .. ' ' .. record) end
end
