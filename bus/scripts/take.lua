-- Take deliveries that were read: run them, park what is over its target's cap, drop what is done or gone.
-- KEYS  1 (any key of the slot)
-- ARGV  1 group  2 now ms  3 lease margin ms  4 prefix of all keys  5 consumer
--       then for each: stream, entry, delivery
-- Returns for each {word} or {'run', body, the delivery's fields...}; words: run parked done gone lost.
local out, now = {}, tonumber(ARGV[2])
for i = 6, #ARGV, 3 do
  local stream, entry, id = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local key = ARGV[4] .. 'delivery:' .. id
  local d = redis.call('HMGET', key, 'state', 'target', 'cap', 'timeout', 'event', 'attempts', 'tries', 'kind',
    'hook', 'version', 'layer', 'created')
  local word
  local pending = redis.call('XPENDING', stream, ARGV[1], entry, entry, 1)
  if #pending == 0 or pending[1][2] ~= ARGV[5] then
    word = 'lost'
  elseif not d[1] or d[1] == 'delivered' or d[1] == 'dead' then
    redis.call('XACK', stream, ARGV[1], entry)
    redis.call('XDEL', stream, entry)
    word = d[1] and 'done' or 'gone'
  else
    local flight = ARGV[4] .. 'flight:' .. d[2]
    redis.call('ZREMRANGEBYSCORE', flight, '-inf', now)
    if redis.call('ZSCORE', flight, id) or redis.call('ZCARD', flight) < tonumber(d[3]) then
      redis.call('ZADD', flight, now + tonumber(d[4]) + tonumber(ARGV[3]), id)
      redis.call('HSET', key, 'state', 'running')
      word = 'run'
    else
      redis.call('RPUSH', ARGV[4] .. 'parked:' .. d[2], id)
      redis.call('HSET', key, 'state', 'parked')
      redis.call('XACK', stream, ARGV[1], entry)
      redis.call('XDEL', stream, entry)
      word = 'parked'
    end
  end
  if word == 'run' then
    out[#out + 1] = {'run', redis.call('HGET', ARGV[4] .. 'body:' .. d[5], 'data') or '', d[2], d[4], d[5], d[6], d[7],
      d[8], d[9], d[10], d[11], d[12]}
  else
    out[#out + 1] = {word}
  end
end
return out
