-- What stands between a delivery and its attempt: an endpoint that is paused or disabled, a breaker that is open, a cap.
-- For scripts with a local `prefix` (of all keys); they say `-- with gates`. A script's KEYS and ARGV are its own.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local BREAKER_MS, PAGE = 86400000, 500
local gates = {}

-- A target's gate, read once a call: halt (paused, disabled or nothing), why; next, interval, probe, ends of an open breaker.
local function gate(target)
  local g = gates[target]
  if not g then
    local halt = redis.call('HMGET', prefix .. 'halted:' .. target, 'state', 'reason')
    local open = redis.call('HMGET', prefix .. 'breaker:' .. target, 'next', 'interval', 'probe', 'ends')
    g = {halt = halt[1], why = halt[2], next = tonumber(open[1]), interval = tonumber(open[2]), probe = open[3],
      ends = tonumber(open[4])}
    gates[target] = g
  end
  return g
end

-- Whether a probe is due: nobody has one under way or was just called, and the interval is over.
local function probe_due(g)
  return now >= g.next and not g.called and not (g.probe and now < g.ends)
end

-- Why a delivery may not be tried now: paused, disabled or open; nothing where it may.
local function closed(target, id)
  local g = gate(target)
  if g.halt then return g.halt end
  if g.next and g.probe ~= id and not probe_due(g) then return 'open' end
end

-- Have the dispatcher look at a target's parked deliveries at `ms`, or earlier where that is wanted already.
local function call_at(target, ms)
  redis.call('ZADD', prefix .. 'openings', 'LT', ms, target)
end

local function set_breaker(target, g, ...)
  local key = prefix .. 'breaker:' .. target
  redis.call('HSET', key, ...)
  redis.call('PEXPIRE', key, BREAKER_MS)
end

-- The one attempt that an open breaker lets through; another may be made where its outcome has not come by `ends`.
local function begin_probe(target, id, ends)
  local g = gate(target)
  g.probe, g.ends = id, ends
  set_breaker(target, g, 'probe', id, 'ends', ends)
  call_at(target, ends)
end

local function park(target, id, key)
  redis.call('RPUSH', prefix .. 'parked:' .. target, id)
  redis.call('HSET', key, 'state', 'parked')
end

-- A dead letter without an attempt.
local function give_up(id, key, reason)
  redis.call('HSET', key, 'state', 'dead', 'reason', reason, 'updated', now)
  redis.call('ZADD', prefix .. 'dead', now, id)
  redis.call('HINCRBY', prefix .. 'stats', 'deliveries:dead', 1)
end

local function ready(target, id, key, stream)
  redis.call('HSET', key, 'state', 'ready')
  redis.call('XADD', stream, '*', 'd', id)
  gate(target).called = true
end

-- Free places of a target that has parked deliveries; 0 where it has none.
local function room(target)
  local first = redis.call('LINDEX', prefix .. 'parked:' .. target, 0)
  if not first then return 0 end
  local flight = prefix .. 'flight:' .. target
  redis.call('ZREMRANGEBYSCORE', flight, '-inf', now)
  return (tonumber(redis.call('HGET', prefix .. 'delivery:' .. first, 'cap')) or 1) - redis.call('ZCARD', flight)
end

-- Give up to `most` parked deliveries of a target back to their streams, as far as its gate lets them; how many.
-- Those of a disabled target become dead letters.
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
    local stream = redis.call('HGET', key, 'stream')
    if stream then
      if g.halt == 'disabled' then give_up(id, key, g.why) else ready(target, id, key, stream) end
      moved = moved + 1
    end
  end
  if g.halt == 'disabled' then call_at(target, now) end  -- a page at a time
  return moved
end
