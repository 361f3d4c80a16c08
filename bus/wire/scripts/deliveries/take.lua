-- Claim deliveries for their attempts, from entries that are read now or were read before. Parks those over their target's
-- cap and those that may not be tried now; drops those that are done or gone. If the target's breaker is open, one delivery
-- is let through when a probe is due.
-- KEYS  1.. the streams to read
-- ARGV  1 group  2 consumer  3 lease margin ms  4 prefix of all keys  5 kept ms of a lineage  6 most bytes of bodies
--       7 how many new ones to read of each stream (0: none)  then for each entry that was read before: stream, entry
-- Returns for each {word} or {'run', stream, entry, delivery, body, the delivery's fields..., for a batch a list of its
-- other members: id, event, body}. Words: run parked dead done gone lost, and later if there are enough bodies for now;
-- {'parked', target} if the target's breaker is open. Only the first delivery of an event has its body.
local group, consumer, prefix = ARGV[1], ARGV[2], ARGV[4]
-- with gates
local out, sent, bytes = {}, {}, 0
local MEMBER_BYTES = 16384  -- the least that a member of a batch counts, since reading it takes the server's time

local function forget(stream, entry)
  redis.call('XACK', stream, group, entry)
  redis.call('XDEL', stream, entry)
end

-- Whether a delivery is over its target's rate; if so, it waits behind those that wait already.
local function over_rate(target, rate, token)
  if not rate or token then return false end
  if redis.call('EXISTS', prefix .. 'parked:' .. target) == 1 then
    redis.call('ZADD', prefix .. 'openings', 'NX', now + SOON_MS, target)
    return true
  end
  local wait = without_token(target, rate)
  if wait then call_at(target, now + wait) end
  return wait
end

-- Whether the delivery has one of its target's places: it has one already (from a carrier that died), or one is free.
local function has_place(flight, id, d)
  if not d[12] and redis.call('ZCARD', flight) < tonumber(d[10]) then return true end
  redis.call('ZREMRANGEBYSCORE', flight, '-inf', now)
  if redis.call('ZSCORE', flight, id) then return true end
  return redis.call('ZCARD', flight) < tonumber(d[10]) and not over_rate(d[1], d[12], d[13])
end

-- The other members of a batch: id, event and body of each.
local function others(members)
  local list = {}
  for id in string.gmatch(members, '%S+') do
    local key = prefix .. 'delivery:' .. id
    local event = redis.call('HGET', key, 'event')
    if event then
      redis.call('HSET', key, 'state', 'running')
      local body = redis.call('HGET', prefix .. 'body:' .. event, 'data') or ''
      bytes = bytes + math.max(#body, MEMBER_BYTES)
      for _, part in ipairs({id, event, body}) do list[#list + 1] = part end
    end
  end
  return list
end

local function take(stream, entry, id)
  local key = prefix .. 'delivery:' .. id
  local d = redis.call('HMGET', key, 'target', 'timeout', 'event', 'tries', 'kind', 'hook', 'version', 'layer', 'state',
    'cap', 'parent', 'rate', 'token', 'members')
  if not d[1] or d[9] == 'delivered' or d[9] == 'dead' then
    forget(stream, entry)
    out[#out + 1] = {d[1] and 'done' or 'gone'}
  elseif bytes >= tonumber(ARGV[6]) then
    out[#out + 1] = {'later'}
  else
    local flight, why = prefix .. 'flight:' .. d[1], closed(d[1], id)
    if why == 'disabled' then
      redis.call('ZREM', flight, id)
      give_up(d[1], id, key, gate(d[1]).why)
      forget(stream, entry)
      out[#out + 1] = {'dead'}
    elseif not why and has_place(flight, id, d) then
      local ends = now + tonumber(d[2]) + tonumber(ARGV[3])
      if gate(d[1]).next then begin_probe(d[1], id, ends) end
      redis.call('ZADD', flight, ends, id)
      redis.call('HSET', key, 'state', 'running')
      if d[13] then redis.call('HDEL', key, 'token') end
      if d[5] == 'command' or d[5] == 'workflow' then
        -- It may run days after its event, and events that it publishes must still find their parents.
        local lineage = prefix .. 'lineage:' .. d[3]
        redis.call('HSET', lineage, 'parent', d[11] or '', 'hook:' .. d[6], '1')
        redis.call('PEXPIRE', lineage, ARGV[5])
      end
      local body = not sent[d[3]] and redis.call('HGET', prefix .. 'body:' .. d[3], 'data') or ''
      sent[d[3]], bytes = true, bytes + #body
      out[#out + 1] = {'run', stream, entry, id, body, d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[14] and others(d[14]) or nil}
    else
      redis.call('ZREM', flight, id)
      park(d[1], id, key)
      forget(stream, entry)
      out[#out + 1] = {'parked', why == 'open' and d[1] or nil}
    end
  end
end

-- The delivery that a stream entry names.
local function delivery_in(fields)
  for i = 1, #fields, 2 do if fields[i] == 'd' then return fields[i + 1] end end
  return ''
end

for i = 8, #ARGV, 2 do
  local stream, entry = ARGV[i], ARGV[i + 1]
  local pending = redis.call('XPENDING', stream, group, entry, entry, 1)
  local found = #pending > 0 and pending[1][2] == consumer and redis.call('XRANGE', stream, entry, entry)[1]
  if found then take(stream, entry, delivery_in(found[2])) else out[#out + 1] = {'lost'} end
end

if ARGV[7] ~= '0' then
  local read = {'GROUP', group, consumer, 'COUNT', ARGV[7], 'STREAMS', unpack(KEYS)}
  for _ = 1, #KEYS do read[#read + 1] = '>' end
  for _, of in ipairs(redis.call('XREADGROUP', unpack(read)) or {}) do
    for _, one in ipairs(of[2]) do take(of[1], one[1], delivery_in(one[2])) end
  end
end
return out
