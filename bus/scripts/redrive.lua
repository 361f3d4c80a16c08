-- Try a dead letter again: its attempts stay in the log, its count of tries begins anew.
-- KEYS  1 dead  2 delivery:<id>  3 job:<id> that counts it (may be left out)
-- ARGV  1 delivery  2 now ms  3 ms: only what died until then (0: whenever)
-- Returns 1 where it was a dead letter with a body to send.
local stream = redis.call('HGET', KEYS[2], 'stream')
local died = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not stream or not died or (tonumber(ARGV[3]) > 0 and tonumber(died) > tonumber(ARGV[3])) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'state', 'ready', 'tries', 0, 'updated', ARGV[2])
redis.call('HINCRBY', KEYS[2], 'redrives', 1)
redis.call('XADD', stream, '*', 'd', ARGV[1])
if KEYS[3] then redis.call('HINCRBY', KEYS[3], 'done', 1) end
return 1
