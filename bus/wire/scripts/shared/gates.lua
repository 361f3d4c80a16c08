-- The gates before an attempt of a delivery: a paused or disabled endpoint, an open breaker, a cap, a rate, the deliveries
-- before it in its line, and a batch that is not full yet. For scripts with a local `prefix` (of all keys) and the line
-- `-- with gates`. These functions use no KEYS and ARGV.
-- with words
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local BREAKER_MS, PAGE, SOON_MS, BATCH_BYTES = 86400000, 500, 20, 204800
local MOST_OUTCOMES = 50000  -- entries, some 4 to 30 MB
local gates = {}

-- A target's gate, read once a call. Fields: halt (paused, disabled or nothing) and why; of an open breaker next, interval,
-- probe and ends.
local function gate(target)
  local g = gates[target]
  if not g then
    local halted, breaker = prefix .. 'halted:' .. target, prefix .. 'breaker:' .. target
    g = {}
    if redis.call('EXISTS', halted, breaker) > 0 then
      local halt = redis.call('HMGET', halted, 'state', 'reason')
      local open = redis.call('HMGET', breaker, 'next', 'interval', 'probe', 'ends')
      g = {halt = halt[1], why = halt[2], next = tonumber(open[1]), interval = tonumber(open[2]), probe = open[3],
        ends = tonumber(open[4])}
    end
    gates[target] = g
  end
  return g
end

-- Whether a probe is due: the interval is over, and no probe is under way or has just been allowed.
local function probe_due(g)
  return now >= g.next and not g.called and not (g.probe and now < g.ends)
end

-- Why a delivery may not be tried now: paused, disabled or open; nothing if it may.
local function closed(target, id)
  local g = gate(target)
  if g.halt then return g.halt end
  if g.next and g.probe ~= id and not probe_due(g) then return 'open' end
end

-- Make the dispatcher check the waiting deliveries of a target at `ms`, unless an earlier check is planned.
local function call_at(target, ms)
  local first = redis.call('ZRANGE', prefix .. 'openings', 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', prefix .. 'openings', 'LT', ms, target)
  if not first or ms < tonumber(first) then give_word() end
end

local function set_breaker(target, g, ...)
  local key = prefix .. 'breaker:' .. target
  redis.call('HSET', key, ...)
  redis.call('PEXPIRE', key, BREAKER_MS)
end

-- Begin the one attempt that an open breaker lets through; if it has no outcome by `ends`, another one is allowed.
local function begin_probe(target, id, ends)
  local g = gate(target)
  g.probe, g.ends = id, ends
  set_breaker(target, g, 'probe', id, 'ends', ends)
  call_at(target, ends)
end

-- Take a token of a target's bucket (`<tokens a ms>:<most>`). Returns nothing, or the ms until there is a token.
local function without_token(target, rate)
  local key = prefix .. 'bucket:' .. target
  local speed, most = string.match(rate, '^(.+):(.+)$')
  speed, most = tonumber(speed), tonumber(most)
  local known = redis.call('HMGET', key, 'tokens', 'at')
  local tokens = math.min(most, (tonumber(known[1]) or most) + math.max(0, now - (tonumber(known[2]) or now)) * speed)
  if tokens < 1 then return math.max(SOON_MS, math.ceil((1 - tokens) / speed)) end
  redis.call('HSET', key, 'tokens', tokens - 1, 'at', now)
  redis.call('PEXPIRE', key, math.ceil(most / speed) + 1000)
end

local function park(target, id, key)
  redis.call('RPUSH', prefix .. 'parked:' .. target, id)
  redis.call('HSET', key, 'state', 'parked')
end

-- Give a delivery that is ready to the carriers.
local function send(target, id, stream)
  redis.call('XADD', stream, '*', 'd', id)
  gate(target).called = true
end

local function ready(target, id, key, stream)
  redis.call('HSET', key, 'state', 'ready')
  send(target, id, stream)
end

-- Add outcomes as one entry to the stream that live feeds read: alternately a delivery's id, and the number of the attempt (0
-- where nothing was tried) with its outcome.
local function add_outcomes(...)
  redis.call('XADD', prefix .. 'outcomes', 'MAXLEN', '~', MOST_OUTCOMES, '*', ...)
end

local function bury(id, key, reason)
  redis.call('HSET', key, 'state', 'dead', 'reason', reason, 'updated', now)
  redis.call('ZADD', prefix .. 'dead', now, id)
  redis.call('HINCRBY', prefix .. 'stats', 'deliveries:dead', 1)
  add_outcomes(id, '0 dead')
end

-- The key of a line. A line whose name has a colon holds deliveries to several targets, any other belongs to one target.
local function line_key(target, line)
  if string.find(line, ':', 1, true) then return prefix .. 'line:' .. line end
  return prefix .. 'line:' .. target .. ':' .. line
end

-- Add a delivery to its line, in its order. Returns whether it is its turn: the delivery whose turn it is has the score -1.
local function has_turn(target, id, line, order)
  local key = line_key(target, line)
  if redis.call('ZSCORE', key, id) == '-1' then return true end
  redis.call('ZADD', key, order, id)
  if redis.call('ZCARD', key) > 1 then return false end
  redis.call('ZADD', key, -1, id)
  return true
end

-- Remove a delivery from its line, and let the next one have its turn; deliveries of a disabled target become dead letters.
local function leave(target, id, line)
  local key = line_key(target, line)
  local turn = redis.call('ZSCORE', key, id)
  redis.call('ZREM', key, id)
  local left = PAGE
  while turn == '-1' do
    local next = redis.call('ZRANGE', key, 0, 0)[1]
    if not next then return end
    local its = prefix .. 'delivery:' .. next
    local d = redis.call('HMGET', its, 'stream', 'target')
    local stream, goal = d[1], d[2] or target
    local why = closed(goal, next)
    left = left - 1
    if stream and (why ~= 'disabled' or left == 0) then
      redis.call('ZADD', key, -1, next)
      if why and left > 0 then park(goal, next, its) else ready(goal, next, its, stream) end
      return
    end
    if stream then bury(next, its, gate(goal).why) end
    redis.call('ZREM', key, next)
  end
end

-- Make dead letters of a delivery and of the others in its batch, without an attempt.
local function give_up(target, id, key, reason)
  local d = redis.call('HMGET', key, 'line', 'members')
  bury(id, key, reason)
  for one in string.gmatch(d[2] or '', '%S+') do
    local its = prefix .. 'delivery:' .. one
    bury(one, its, reason)
    redis.call('HDEL', its, 'head')
  end
  redis.call('HDEL', key, 'members')
  if d[1] then leave(target, id, d[1]) end
end

-- Send a delivery to its attempt, or to the place where it waits for one.
local function start(target, id, key, stream)
  local why = closed(target, id)
  if why == 'disabled' then give_up(target, id, key, gate(target).why)
  elseif why then park(target, id, key)
  else ready(target, id, key, stream) end
end

-- Make one delivery of a target's waiting batch: the first one carries the others.
local function form(target, most)
  local list, ids, bytes = prefix .. 'batch:' .. target, {}, 0
  while #ids < most do
    local id = redis.call('LPOP', list)
    if not id then break end
    local event = redis.call('HGET', prefix .. 'delivery:' .. id, 'event')
    local size = event and redis.call('HSTRLEN', prefix .. 'body:' .. event, 'data') or 0
    if #ids > 0 and bytes + size > BATCH_BYTES then
      redis.call('LPUSH', list, id)
      break
    end
    if event then ids[#ids + 1], bytes = id, bytes + size end
  end
  if #ids == 0 then return end
  local key = prefix .. 'delivery:' .. ids[1]
  redis.call('HSET', key, 'members', table.concat(ids, ' ', 2))
  for i = 2, #ids do redis.call('HSET', prefix .. 'delivery:' .. ids[i], 'head', ids[1]) end
  start(target, ids[1], key, redis.call('HGET', key, 'stream'))
end

-- Form the batches of a target that are full, or whose first delivery has waited long enough. For a disabled target all are
-- formed, and become dead letters.
local function form_ripe(target)
  local list = prefix .. 'batch:' .. target
  while true do
    local first = redis.call('LINDEX', list, 0)
    if not first then return end
    local d = redis.call('HMGET', prefix .. 'delivery:' .. first, 'batch', 'collected')
    local most, wait = string.match(d[1] or '1:0', '^(%d+):(%d+)$')
    local ripe = gate(target).halt == 'disabled' and now or (tonumber(d[2]) or 0) + tonumber(wait)
    if now < ripe and redis.call('LLEN', list) < tonumber(most) then return call_at(target, ripe) end
    form(target, tonumber(most))
  end
end

-- Take a delivery that is to be tried through its line, batch and gate. `d`: stream, target, line, order, batch, members.
local function go(id, key, d)
  local target = d[2]
  if gate(target).halt == 'disabled' then return give_up(target, id, key, gate(target).why) end
  if d[3] and not has_turn(target, id, d[3], d[4]) then
    redis.call('HSET', key, 'state', 'parked')
  elseif d[5] and not d[6] then
    redis.call('RPUSH', prefix .. 'batch:' .. target, id)
    redis.call('HSET', key, 'state', 'parked', 'collected', now)
    form_ripe(target)
  else
    start(target, id, key, d[1])
  end
end

local function way(key)
  return redis.call('HMGET', key, 'stream', 'target', 'line', 'order', 'batch', 'members')
end

-- The number of free places of a target that has parked deliveries; 0 without parked deliveries.
local function room(target)
  local first = redis.call('LINDEX', prefix .. 'parked:' .. target, 0)
  if not first then return 0 end
  local flight = prefix .. 'flight:' .. target
  redis.call('ZREMRANGEBYSCORE', flight, '-inf', now)
  return (tonumber(redis.call('HGET', prefix .. 'delivery:' .. first, 'cap')) or 1) - redis.call('ZCARD', flight)
end

-- Move up to `most` parked deliveries of a target back to their streams, as far as its gate allows. Returns how many.
-- Deliveries of a disabled target become dead letters.
local function release(target, most)
  local g = gate(target)
  if g.halt == 'paused' then return 0 end
  if g.halt == 'disabled' then most = PAGE
  elseif g.next then
    if not probe_due(g) then return 0 end
    most = math.min(most, 1)
  end
  local list, moved = prefix .. 'parked:' .. target, 0
  while moved < most do
    local id = redis.call('LPOP', list)
    if not id then return moved end
    local key = prefix .. 'delivery:' .. id
    local d = redis.call('HMGET', key, 'stream', 'rate', 'token')
    if d[1] and g.halt == 'disabled' then
      give_up(target, id, key, g.why)
    elseif d[1] then
      local wait = d[2] and not d[3] and without_token(target, d[2])
      if wait then
        redis.call('LPUSH', list, id)
        call_at(target, now + wait)
        return moved
      end
      if d[2] then redis.call('HSET', key, 'token', 1) end
      ready(target, id, key, d[1])
    end
    moved = moved + 1
  end
  if g.halt == 'disabled' then call_at(target, now) end  -- a page at a time
  return moved
end
