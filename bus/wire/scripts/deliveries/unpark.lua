-- Move parked deliveries back to their stream if their target has no attempt under way: as many as it has places.
-- Usually the end of an attempt releases the next one (settle.lua); this is for the case that this failed.
-- KEYS  1 flight:<target>
-- ARGV  1 prefix of all keys  2 target
-- Returns the number moved.
local prefix = ARGV[1]
-- with gates
local places = room(ARGV[2])
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
return release(ARGV[2], places)
