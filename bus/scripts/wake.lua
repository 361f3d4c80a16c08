-- Move deliveries that are due back to their stream.
-- KEYS  1 due
-- ARGV  1 most  2 prefix of all keys
-- Returns {number moved, ms until the next one is due or ''}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do
  local key = ARGV[2] .. 'delivery:' .. id
  local stream = redis.call('HGET', key, 'stream')
  redis.call('ZREM', KEYS[1], id)
  if stream then
    redis.call('HSET', key, 'state', 'ready')
    redis.call('HDEL', key, 'due')
    redis.call('XADD', stream, '*', 'd', id)
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {#ids, first[2] and math.max(0, tonumber(first[2]) - now) or ''}
