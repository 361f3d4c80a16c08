-- Make a dead letter of a stream entry that cannot be processed.
-- KEYS  1 deadletter:<id>  2 dead  3 stream
-- ARGV  1 group ('' leaves the entry where it is)  2 entry  3 now ms  4 ttl ms  5 id  6.. fields
if ARGV[1] ~= '' then
  if redis.call('XACK', KEYS[3], ARGV[1], ARGV[2]) == 0 then return 0 end
  if KEYS[3]:sub(-6) ~= 'events' then redis.call('XDEL', KEYS[3], ARGV[2]) end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 6))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[5])
return 1
