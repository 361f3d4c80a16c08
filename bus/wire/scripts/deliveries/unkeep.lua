-- Forget that events are kept for a host, if none are left.
-- KEYS  1 kept  2 events:<host>    ARGV  1 host
if redis.call('EXISTS', KEYS[2]) == 1 and redis.call('XLEN', KEYS[2]) > 0 then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
