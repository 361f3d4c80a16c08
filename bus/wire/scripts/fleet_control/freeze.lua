-- Put a stop in force, and record it.
-- KEYS  1 stops  2 stops:log  3 events  4 late
-- ARGV  1 id  2 the stop  3 the most stops  4 how many fields the log has  5.. the log's fields, then those of the event
-- Returns the number of stops in force; 0 if there are too many, and this one was not added.
redis.call('XACK', KEYS[3], 'dispatchers', '0-0')  -- no entry: a full server lets a script continue after such a write
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local last = 4 + ARGV[4]
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', unpack(ARGV, 5, last))
local added = redis.pcall('XADD', KEYS[3], '*', unpack(ARGV, last + 1))
if type(added) ~= 'string' then redis.call('XADD', KEYS[4], '*', unpack(ARGV, last + 1)) end
return redis.call('HLEN', KEYS[1])
