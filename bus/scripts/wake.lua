-- Move deliveries that are due back to their stream, and the parked ones of targets with nothing in flight.
-- KEYS  1 due
-- ARGV  1 now ms  2 most  3 prefix of all keys
-- Returns {number moved, score of the next due one or ''}.
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  local key = ARGV[3] .. 'delivery:' .. id
  local stream = redis.call('HGET', key, 'stream')
  redis.call('ZREM', KEYS[1], id)
  if stream then
    redis.call('HSET', key, 'state', 'ready')
    redis.call('HDEL', key, 'due')
    redis.call('XADD', stream, '*', 'd', id)
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {#ids, first[2] or ''}
