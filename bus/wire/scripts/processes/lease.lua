-- Hold a lease: take it if it is free, renew it if the caller has it.
-- KEYS  1 alive:<role>    ARGV  1 who  2 ms
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
