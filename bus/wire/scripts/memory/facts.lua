-- Note what sessions did, for conditions that read facts of a session (workers/memory/fact_marks.py).
-- KEYS  1 facts:<session>
-- ARGV  1 prefix of all keys  2 ms that it is kept  3 the most deeds of a session  4 ms of a pause between two calls that are no
--       loop, then for each session: its key, the key of the session that it counts for ('' for itself), and three lists, each
--       after the number of its arguments: times and deeds; times and secrets that it read; and of its calls, 5 each: kind (pre,
--       done, waited, prompt)  hash of the call  hash of its outcome  ms  entry of its event
-- An event may be noted twice: then nothing changes. A deed keeps its last time.
-- Each call of the script gives the changes of a session a new number (`changed`), so that a reader that remembers a session asks
-- for what is newer (memory/renew.lua): `recent` has the last calls that changed, each with its number, after the number since
-- which none is missing there; `behind` is the last number whose deeds are not the newest ones.
-- Returns how many sessions were noted.
local prefix, ttl, most, pause, i, noted = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), 5, 0
local MOST_CALLS, MOST_RECENT = 500, 16

-- Whether a stream entry is not later than another one.
local function seen(entry, last)
  local ms, number = string.match(entry, '^(%d+)-(%d+)$')
  local last_ms, last_number = string.match(last, '^(%d+)-(%d+)$')
  if not ms or not last_ms then return false end
  if ms ~= last_ms then return tonumber(ms) < tonumber(last_ms) end
  return tonumber(number) <= tonumber(last_number)
end

local function later(key, field, ms)
  if tonumber(ms) > tonumber(redis.call('HGET', key, field) or '0') then redis.call('HSET', key, field, ms) end
end

local function note_call(key, kind, call, outcome, ms, entry)
  if kind == 'waited' or kind == 'prompt' then return later(key, kind, ms) end
  local count, was, last, from = string.match(redis.call('HGET', key, call) or '', '^(%d+) (%S+) (%d+) (%S+)$')
  if kind == 'pre' then
    -- It comes after a pause: then it polls. What was the same before the pause does not count any more.
    if not count or tonumber(ms) - last < pause then return end
    redis.call('HSET', key, call, '0 ' .. was .. ' ' .. last .. ' ' .. from)
    return call
  end
  if from and seen(entry, from) then return end
  local since = math.max(tonumber(redis.call('HGET', key, 'waited') or '0'), tonumber(redis.call('HGET', key, 'prompt') or '0'))
  local again = was == outcome and tonumber(last) > since
  redis.call('HSET', key, call, (again and count + 1 or 1) .. ' ' .. outcome .. ' ' .. ms .. ' ' .. entry)
  return call
end

-- Give the changes of a session a number that it never had: the first one is the time, so one that was purged begins later.
local function number_change(key, calls, is_behind)
  local number = redis.call('HGET', key, 'changed')
  if not number then
    local time = redis.call('TIME')
    number = string.format('%d%06d', time[1], time[2])
    redis.call('HSET', key, 'changed', number, 'behind', number, 'recent', number)
  end
  number = string.format('%.0f', redis.call('HINCRBY', key, 'changed', 1))
  if is_behind then redis.call('HSET', key, 'behind', number) end
  if #calls == 0 then return end
  local from, rows = string.match(redis.call('HGET', key, 'recent') or number, '^(%d+)(.*)$')
  local kept = {}
  for row in string.gmatch(rows, '%S+') do kept[#kept + 1] = row end
  for _, call in ipairs(calls) do kept[#kept + 1] = number .. '=' .. call end
  local first = math.max(1, #kept - MOST_RECENT + 1)
  if first > 1 then from = string.match(kept[first - 1], '^%d+') end
  redis.call('HSET', key, 'recent', from .. ' ' .. table.concat(kept, ' ', first))
end

-- with family
local function move_times(from, to, kept)
  local times = redis.call('ZRANGE', from, 0, -1, 'WITHSCORES')
  for at = 1, #times, 2 do redis.call('ZADD', to, 'GT', times[at + 1], times[at]) end
  if #times > 0 then redis.call('PEXPIRE', to, math.max(kept, redis.call('PTTL', from), redis.call('PTTL', to))) end
  redis.call('DEL', from)
end

-- What a session did before its parent was known counts for the parent too: its calls, what models used, and its deeds.
local function adopt(session, root)
  for _, listed in ipairs(redis.call('ZRANGE', prefix .. 'limits', 0, -1)) do
    local counter, rest = string.match(listed, '^(%S+)( .*)$')
    if counter and string.sub(counter, -#session) == session then
      local name = string.sub(counter, 1, -#session - 1) .. root
      redis.call('ZADD', prefix .. 'limits', redis.call('ZSCORE', prefix .. 'limits', listed), name .. rest)
      redis.call('ZREM', prefix .. 'limits', listed)
      move_times(prefix .. 'limit:' .. counter, prefix .. 'limit:' .. name, 0)
    end
  end
  local from, to = prefix .. 'spent:session:' .. session, prefix .. 'spent:session:' .. root
  local used = redis.call('HGETALL', from)
  for at = 1, #used, 2 do redis.call('HINCRBY', to, used[at], used[at + 1]) end
  if #used > 0 then redis.call('PEXPIRE', to, ttl) end
  redis.call('DEL', from)
  for _, kind in ipairs({'', ':secrets'}) do
    move_times(prefix .. 'facts:' .. session .. kind, prefix .. 'facts:' .. root .. kind, tonumber(ttl))
  end
end

while i <= #ARGV do
  local session, parent = ARGV[i], ARGV[i + 1]
  i, noted = i + 2, noted + 1
  local is_behind, calls = false, {}
  if parent ~= '' then
    local root, known = root_of(parent), redis.call('EXISTS', prefix .. 'family:' .. session) == 1
    if root ~= session then
      redis.call('SET', prefix .. 'family:' .. session, root, 'PX', ttl)
      if not known then
        adopt(session, root)
        is_behind = true
      end
    end
  end
  session = root_of(session)
  for _, name in ipairs({'facts:' .. session, 'facts:' .. session .. ':secrets'}) do
    local key, from, n = prefix .. name, i + 1, tonumber(ARGV[i])
    i = from + n
    if n > 0 then
      local newest = tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2] or '0')
      for at = from, from + n - 1, 2 do is_behind = is_behind or tonumber(ARGV[at]) < newest end
      for at = from, from + n - 1, 1000 do redis.call('ZADD', key, 'GT', unpack(ARGV, at, math.min(at + 999, from + n - 1))) end
      redis.call('ZREMRANGEBYRANK', key, 0, -most - 1)
      redis.call('PEXPIRE', key, ttl)
    end
  end
  local key, from, n = prefix .. 'repeats:' .. session, i + 1, tonumber(ARGV[i])
  i = from + n
  for at = from, from + n - 1, 5 do calls[#calls + 1] = note_call(key, unpack(ARGV, at, at + 4)) end
  if redis.call('HLEN', key) > MOST_CALLS then
    local state = redis.call('HMGET', key, 'changed', 'behind')
    redis.call('DEL', key)
    if state[1] then redis.call('HSET', key, 'changed', state[1], 'behind', state[2]) end
  end
  number_change(key, calls, is_behind)
  redis.call('PEXPIRE', key, ttl)
end
return noted
