-- Move due deliveries back to their stream, and check the targets whose waiting deliveries may be sent.
-- KEYS  1 due  2 openings
-- ARGV  1 most  2 prefix of all keys
-- Returns {number moved, ms until the next one is due or ''}.
local prefix = ARGV[2]
-- with gates
local moved = 0

local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do
  local key = prefix .. 'delivery:' .. id
  local d = way(key)
  redis.call('ZREM', KEYS[1], id)
  if d[1] then
    redis.call('HDEL', key, 'due')
    go(id, key, d)
  end
  moved = moved + 1
end

local targets = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, target in ipairs(targets) do
  redis.call('ZREM', KEYS[2], target)
  moved = moved + release(target, room(target))
  form_ripe(target)
end

local next
for _, key in ipairs(KEYS) do
  local first = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  if first and (not next or first < next) then next = first end
end
return {moved, next and math.max(0, next - now) or ''}
