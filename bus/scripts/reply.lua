-- Answer a part of a request, on a full server too, and let its entry go.
-- KEYS  1 requests:<host>  2 reply    ARGV  1 group  2 entry  3 answer  4 ms that it is kept
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])  -- first: a full server lets a script go on that has begun with such a write
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[3])
return redis.call('PEXPIRE', KEYS[2], ARGV[4])
