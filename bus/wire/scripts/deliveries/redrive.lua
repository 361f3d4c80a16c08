-- Try a dead letter again: its attempts stay in the log, its count of tries starts at zero.
-- KEYS  1 dead  2 delivery:<id>  3 job:<id> that counts it (may be left out)
-- ARGV  1 delivery  2 now ms  3 ms: only a letter that died until then (0: any time)  4 prefix of all keys
-- Returns 1 if it was a dead letter with a body to send, and its endpoint is not disabled.
local prefix = ARGV[4]
-- with gates
local d = way(KEYS[2])
local died = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not d[1] or gate(d[2]).halt == 'disabled' or not died or (tonumber(ARGV[3]) > 0 and tonumber(died) > tonumber(ARGV[3])) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'tries', 0, 'updated', ARGV[2])
redis.call('HINCRBY', KEYS[2], 'redrives', 1)
go(ARGV[1], KEYS[2], d)
if KEYS[3] then redis.call('HINCRBY', KEYS[3], 'done', 1) end
return 1
