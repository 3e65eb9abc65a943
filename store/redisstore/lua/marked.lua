-- An absent record may be in a shard of another layout.
if not r and ARGV[1] and not redis.call('ZSCORE', pending, ARGV[1]) then
  return redis.error_reply('REDOLAYOUT the shard does not belong to the layout')
end
