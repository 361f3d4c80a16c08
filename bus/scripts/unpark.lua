-- Give parked deliveries back to their stream where nothing of their target is in flight: as many as it has places.
-- Every place that gets free calls the next one by itself (settle); this is for a chain that broke all the same.
-- KEYS  1 parked:<target>  2 flight:<target>
-- ARGV  1 prefix of all keys
-- Returns {number moved, number still parked}.
local time = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', time[1] * 1000 + math.floor(time[2] / 1000))
local moved, places = 0, 1
while redis.call('ZCARD', KEYS[2]) == 0 and moved < places do
  local id = redis.call('LPOP', KEYS[1])
  if not id then break end
  local key = ARGV[1] .. 'delivery:' .. id
  local d = redis.call('HMGET', key, 'stream', 'cap')
  if d[1] then
    places = tonumber(d[2])
    redis.call('HSET', key, 'state', 'ready')
    redis.call('XADD', d[1], '*', 'd', id)
    moved = moved + 1
  end
end
return {moved, redis.call('LLEN', KEYS[1])}
