-- Try a dead letter again: its attempts stay in the log, its count of tries begins anew.
-- KEYS  1 dead  2 delivery:<id>
-- ARGV  1 delivery  2 now ms
-- Returns 1 where it was a dead letter with a body to send.
local stream = redis.call('HGET', KEYS[2], 'stream')
if not stream or redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], 'state', 'ready', 'tries', 0, 'updated', ARGV[2])
redis.call('HINCRBY', KEYS[2], 'redrives', 1)
redis.call('XADD', stream, '*', 'd', ARGV[1])
return 1
