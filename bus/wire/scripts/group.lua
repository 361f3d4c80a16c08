-- Make a group that reads a stream from its start, on a full server too; the error BUSYGROUP where there is one.
-- KEYS  1 stream    ARGV  1 group
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script go on that has begun with such a write
return redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
