-- Answer a probe, once, without a record of it.
-- KEYS  1 stream of the entry  2 reply
-- ARGV  1 group  2 entry  3 answer  4 kept ms  5 '1' when the reply may be written
-- Returns 1 if this call answered, 0 if another one had.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
if ARGV[5] == '1' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return 1
