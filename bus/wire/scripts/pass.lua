-- Acknowledge events that become no delivery. Each is counted once, whichever dispatcher reads it.
-- KEYS  1 events  2 stats
-- ARGV  1 group  2.. entries
-- Returns how many were still to be dispatched.
local passed = redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
if passed > 0 then redis.call('HINCRBY', KEYS[2], 'events', passed) end
return passed
