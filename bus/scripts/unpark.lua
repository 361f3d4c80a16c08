-- Give a target's parked deliveries back to their stream when nothing of it is in flight (its carrier died).
-- KEYS  1 parked:<target>  2 flight:<target>
-- ARGV  1 now ms  2 most  3 prefix of all keys
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
local moved = 0
while moved < tonumber(ARGV[2]) do
  local id = redis.call('LPOP', KEYS[1])
  if not id then break end
  local key = ARGV[3] .. 'delivery:' .. id
  local stream = redis.call('HGET', key, 'stream')
  if stream then
    redis.call('HSET', key, 'state', 'ready')
    redis.call('XADD', stream, '*', 'd', id)
    moved = moved + 1
  end
end
return moved
