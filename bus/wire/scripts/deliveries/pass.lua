-- Acknowledge events that become no delivery. Each is counted once, whichever dispatcher reads it.
-- KEYS  1 events  2 stats
-- ARGV  1 group  2 prefix of all keys  then for each: entry, what to count
-- Returns how many were still to be dispatched.
-- with counting
local passed = 0
for i = 3, #ARGV, 2 do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    passed = passed + 1
    count(ARGV[i + 1])
  end
end
if passed > 0 then redis.call('HINCRBY', KEYS[2], 'events', passed) end
write_counts(ARGV[2])
return passed
