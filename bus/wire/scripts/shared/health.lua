-- The health of targets: breakers open and close; endpoints that are gone or only fail are disabled.
-- For a script with the ARGV 6 to 9 of settle.lua, below the line `-- with gates`.
local FIRST, MOST, DISABLE, LEAST = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local ENDPOINT = 'endpoint:'
local healthy = {}

local function is_endpoint(target)
  return string.sub(target, 1, #ENDPOINT) == ENDPOINT
end

-- Publish an event of Fleethook itself. Its id is made of its content and time, so the script needs no random numbers.
local function announce(type, data)
  local digest = redis.sha1hex(type .. data.endpoint .. now .. prefix)
  local id = string.format('e%012x%s', now, string.sub(digest, 1, 20))
  local body = cmsgpack.pack({v = 1, type = type, id = id, source = 'fleethook', time = now, data = data})
  redis.pcall('XADD', prefix .. 'events', '*', 'id', id, 'source', 'fleethook', 'event', type, 'host', '', 'body', body)
end

local function disable(target, by, reason, data)
  redis.call('HSET', prefix .. 'halted:' .. target, 'state', 'disabled', 'reason', reason, 'by', by, 'at', now)
  local g = gate(target)
  g.halt, g.why = 'disabled', reason
  data.endpoint, data.reason, data.by = string.sub(target, #ENDPOINT + 1), reason, by
  announce('endpoint:disabled', data)
  call_at(target, now)
  return 'disabled'
end

-- Record a failure of an endpoint. After it has only failed for 50, 70 and 90 % of the allowed time, an event says so; at
-- 100 % it is disabled.
local function failing(target, reason)
  healthy[target] = nil
  local key = prefix .. 'failing:' .. target
  redis.call('HSETNX', key, 'since', now)
  local count = redis.call('HINCRBY', key, 'count', 1)
  redis.call('HSET', key, 'last', now, 'reason', reason)
  redis.call('PEXPIRE', key, math.max(2 * DISABLE, BREAKER_MS))
  if DISABLE == 0 or count < LEAST then return end
  local known = redis.call('HMGET', key, 'since', 'said')
  local percent, level = (now - known[1]) * 100 / DISABLE, nil
  for _, step in ipairs({50, 70, 90, 100}) do if percent >= step then level = step end end
  if not level or level <= (tonumber(known[2]) or 0) then return end
  redis.call('HSET', key, 'said', level)
  local data = {since = tonumber(known[1]), failures = count, percent = level, last = reason}
  if level == 100 then
    return disable(target, 'failing', 'disabled: nothing but failures for ' .. math.floor((now - known[1]) / 1000)
      .. ' s, the last: ' .. reason, data)
  end
  data.endpoint = string.sub(target, #ENDPOINT + 1)
  announce('endpoint:failing', data)
  return 'failing:' .. level
end

-- Record what an attempt shows of its target. Returns what changed: opened, closed, disabled, failing:<percent>.
local function note(target, id, outcome, said, reason)
  local word, rest = string.match(said, '^(%a*) ?(%d*)$')
  local g, changed = gate(target), nil
  if g.next and g.probe == id then
    g.probe, g.called = false, nil
    redis.call('HDEL', prefix .. 'breaker:' .. target, 'probe', 'ends')
    if word == 'ok' then
      redis.call('DEL', prefix .. 'breaker:' .. target)
      g.next, changed = nil, 'closed'
    elseif word ~= '' then
      g.interval = math.min(g.interval * 2, MOST)
      g.next = now + math.max(g.interval, tonumber(rest) or 0)
      set_breaker(target, g, 'interval', g.interval, 'next', g.next, 'reason', reason)
      call_at(target, g.next)
    end
  elseif word == 'open' and not g.next then
    g.interval, changed = FIRST, 'opened'
    g.next = now + math.max(FIRST, tonumber(rest) or 0)
    set_breaker(target, g, 'since', now, 'interval', g.interval, 'next', g.next, 'reason', reason)
    call_at(target, g.next)
  end
  if word ~= '' and is_endpoint(target) then
    if outcome == 'delivered' then
      if not healthy[target] then redis.call('DEL', prefix .. 'failing:' .. target) end
      healthy[target] = true
    elseif word == 'gone' then
      if g.halt ~= 'disabled' then changed = disable(target, 'receiver', reason, {}) end
    elseif g.halt ~= 'disabled' then
      changed = failing(target, reason) or changed
    end
  end
  return changed
end
