-- Make a dead letter, once, of an event that was kept too long for a host whose worker is away.
-- KEYS  1 events:<host>  2 deadletter:<id>  3 dead
-- ARGV  1 group  2 entry  3 now ms  4 ttl ms  5 id  6.. fields
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], unpack(ARGV, 6))
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[5])
return 1
