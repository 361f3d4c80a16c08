-- Give parked deliveries back to their stream where nothing of their target is in flight: as many as it has places.
-- Every place that gets free calls the next one by itself (settle); this is for a chain that broke all the same.
-- KEYS  1 flight:<target>
-- ARGV  1 prefix of all keys  2 target
-- Returns the number moved.
local prefix = ARGV[1]
-- with gates
local places = room(ARGV[2])
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
return release(ARGV[2], places)
