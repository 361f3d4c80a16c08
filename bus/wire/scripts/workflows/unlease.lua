-- End the lease of a workflow's state, if it is still this one.
-- KEYS  1 flow:<session>:<workflow>  ARGV  1 token
if string.match(redis.call('HGET', KEYS[1], 'lease') or '', '^%S*') == ARGV[1] then redis.call('HDEL', KEYS[1], 'lease') end
return 1
