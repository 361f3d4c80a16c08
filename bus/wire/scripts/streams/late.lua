-- Add the entries to the event stream that could not be added while its last id was made up.
-- KEYS  1 late  2 events
-- ARGV  1 most
-- Returns how many are left.
for _, row in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])) do
  redis.call('XADD', KEYS[2], '*', unpack(row[2]))
  redis.call('XDEL', KEYS[1], row[1])
end
local left = redis.call('XLEN', KEYS[1])
if left == 0 then redis.call('DEL', KEYS[1]) end
return left
