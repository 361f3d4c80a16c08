-- Say that hooks still run for a request, on a full server too.
-- KEYS  1 reply:<token>:wait    ARGV  1 ms
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('RPUSH', KEYS[1], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1
