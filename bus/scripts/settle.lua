-- The outcomes of attempts, each once: logged, and delivered | due later | dead letter; frees the target's place.
-- KEYS  1 (any key of the slot)
-- ARGV  1 group  2 consumer  3 kept ms of a delivered one  4 prefix of all keys  5 most attempts kept
--       then for each: stream, entry, delivery, outcome (delivered, retry, dead), ms until the next attempt, reason,
--       attempt record
-- Returns for each 1 where this call settled it, 0 where another had settled it or has taken it over.
local group, consumer, prefix = ARGV[1], ARGV[2], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A success counts whoever had it; a failure only of whose entry it is: who took it over may be succeeding just now.
local function ours(stream, entry, outcome)
  if outcome == 'delivered' then return true end
  local pending = redis.call('XPENDING', stream, group, entry, entry, 1)
  return #pending > 0 and pending[1][2] == consumer
end

local function place_for_next(target)
  while true do
    local id = redis.call('LPOP', prefix .. 'parked:' .. target)
    if not id then return end
    local key = prefix .. 'delivery:' .. id
    local stream = redis.call('HGET', key, 'stream')
    if stream then
      redis.call('HSET', key, 'state', 'ready')
      redis.call('XADD', stream, '*', 'd', id)
      return
    end
  end
end

local out, counts = {}, {}
for i = 6, #ARGV, 7 do
  local stream, entry, id, outcome = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if not ours(stream, entry, outcome) or redis.call('XACK', stream, group, entry) == 0 then
    out[#out + 1] = 0
  else
    local key = prefix .. 'delivery:' .. id
    local d = redis.call('HMGET', key, 'target', 'event', 'kind', 'hook')
    redis.call('XDEL', stream, entry)
    if d[1] then
      redis.call('ZREM', prefix .. 'flight:' .. d[1], id)
      local lineage = prefix .. 'lineage:' .. d[2]
      if d[3] == 'command' and redis.call('HEXISTS', lineage, 'hook:' .. d[4]) == 1 then
        redis.call('HSET', lineage, 'hook:' .. d[4], now)
      end
      local n = redis.call('HINCRBY', key, 'attempts', 1)
      redis.call('HINCRBY', key, 'tries', 1)
      redis.call('HSET', key, 'attempt:' .. n, ARGV[i + 6], 'updated', now, 'reason', ARGV[i + 5])
      redis.call('HDEL', key, 'attempt:' .. (n - tonumber(ARGV[5])))
      if outcome == 'delivered' then
        redis.call('HSET', key, 'state', 'delivered')
        redis.call('PEXPIRE', key, ARGV[3])
        local body = prefix .. 'body:' .. d[2]
        if redis.call('HINCRBY', body, 'refs', -1) <= 0 then redis.call('DEL', body) end
      elseif outcome == 'retry' then
        local due = now + tonumber(ARGV[i + 4])
        redis.call('HSET', key, 'state', 'due', 'due', due)
        redis.call('ZADD', prefix .. 'due', due, id)
      else
        redis.call('HSET', key, 'state', 'dead')
        redis.call('ZADD', prefix .. 'dead', now, id)
      end
      counts[outcome] = (counts[outcome] or 0) + 1
      place_for_next(d[1])
    end
    out[#out + 1] = 1
  end
end
for outcome, count in pairs(counts) do redis.call('HINCRBY', prefix .. 'stats', 'deliveries:' .. outcome, count) end
return out
