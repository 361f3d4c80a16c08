-- Send a part of a request to the host that can answer it, on a full server too.
-- KEYS  1 requests:<host>    ARGV  1 group  2.. fields
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script continue after a write that needs no memory
return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
