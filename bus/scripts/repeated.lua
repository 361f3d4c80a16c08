-- Remove a spooled event that stands in the stream already: its first acknowledgement was lost on the wire.
-- KEYS  1 events
-- ARGV  1 group  2 entry  3 event id  4 from ms  5 to ms
-- Returns 1 where there was an earlier one.
for _, row in ipairs(redis.call('XRANGE', KEYS[1], ARGV[4], ARGV[5], 'COUNT', 20000)) do
  if row[1] == ARGV[2] then return 0 end
  for i = 1, #row[2], 2 do
    if row[2][i] == 'id' and row[2][i + 1] == ARGV[3] then
      redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
      redis.call('XDEL', KEYS[1], ARGV[2])
      return 1
    end
  end
end
return 0
