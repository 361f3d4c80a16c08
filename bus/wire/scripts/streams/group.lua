-- Make a group that reads a stream from its start, on a full server too. Fails with BUSYGROUP if the group exists.
-- KEYS  1 stream    ARGV  1 group  2 ms that a stream is kept which nobody writes to ('': it stays)
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script continue after a write that needs no memory
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if ARGV[2] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return made
