-- Answer a part of a request and acknowledge its entry, on a full server too. Repeated requests for it are answered too.
-- KEYS  1 requests:<host>  2 reply  3 part:<id>  4 join:<id>:host    ARGV  1 group  2 entry  3 answer  4 ms that it is kept
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])  -- first: a full server lets a script continue after a write that needs no memory
redis.call('XDEL', KEYS[1], ARGV[2])
local function give(reply)
  redis.call('RPUSH', reply, ARGV[3])
  redis.call('PEXPIRE', reply, ARGV[4])
end
give(KEYS[2])
if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('SET', KEYS[3], 'done ' .. ARGV[3], 'PX', ARGV[4]) end
for _, reply in ipairs(redis.call('LRANGE', KEYS[4], 0, -1)) do give(reply) end
redis.call('DEL', KEYS[4])
return 1
