-- The limits of rules: counts the calls that pass (docs/limits.md). For a script with the local `prefix` and `family`.
-- A limit has LIMIT_ARGS arguments: its counter  a session whose subagents count for it ('' for another scope)  the call
-- a mark of the call ('' for none)  '1' to leave the mark for the call's next event, '' to look for it  the most
-- ms of the window ('0': the whole session)  '1' if it refuses  the place of its count in the verdict ('0' for none)
-- what `limits` lists of it  ms that it is kept
local LIMIT_ARGS, SAME_MS, MOST_KEPT, MOST_LISTED = 11, 60000, 10000, 10000

local function limit_at(first, now)
  local l = {call = ARGV[first + 2], mark = ARGV[first + 3], marks = ARGV[first + 4] == '1', most = tonumber(ARGV[first + 5]),
    window = tonumber(ARGV[first + 6]), refuses = ARGV[first + 7] == '1', place = tonumber(ARGV[first + 8]),
    listed = ARGV[first + 9], kept = ARGV[first + 10]}
  local session = ARGV[first + 1]
  if session ~= '' then session = root_of(session) end
  l.key = prefix .. 'limit:' .. ARGV[first] .. session
  l.from = l.window > 0 and string.format('(%d', now - l.window) or '-inf'
  -- A call that comes again, or comes as several events, counts once.
  local before = redis.call('ZSCORE', l.key, l.call)
  l.known = before and now - before < SAME_MS
  if l.mark ~= '' and not l.marks then
    l.mark_key = prefix .. 'counted:' .. ARGV[first] .. l.mark
    l.known = l.known or redis.call('EXISTS', l.mark_key) == 1
  elseif l.mark ~= '' then
    l.mark_key = prefix .. 'counted:' .. ARGV[first] .. l.mark
  end
  l.count = redis.call('ZCOUNT', l.key, l.from, '+inf')
  l.over = not l.known and l.count >= l.most
  return l
end

-- When the next call fits: the time at which enough of the counted calls leave the window; 0 where none does.
local function free_at(l)
  if l.window == 0 or l.most < 1 then return 0 end
  local due = redis.call('ZRANGEBYSCORE', l.key, l.from, '+inf', 'WITHSCORES', 'LIMIT', l.count - l.most, 1)
  return due[2] and due[2] + l.window or 0
end

-- Count the call; returns the count with it. What left the window is removed, and the counter listed, once a second.
local function charge(l, now)
  if l.known then
    if l.mark_key and not l.marks then redis.call('DEL', l.mark_key) end
    return l.count
  end
  local last = redis.call('ZRANGE', l.key, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', l.key, now, l.call)
  if l.mark_key and l.marks then redis.call('SET', l.mark_key, '1', 'PX', SAME_MS) end
  if last and now - now % 1000 <= tonumber(last) then return l.count + 1 end
  if l.window > 0 then redis.call('ZREMRANGEBYSCORE', l.key, '-inf', now - l.window) end
  redis.call('ZREMRANGEBYRANK', l.key, 0, -MOST_KEPT - 1)
  redis.call('PEXPIRE', l.key, l.kept + 1000)
  redis.call('ZADD', prefix .. 'limits', now, string.sub(l.key, #prefix + 7) .. ' ' .. l.listed)
  redis.call('ZREMRANGEBYRANK', prefix .. 'limits', 0, -MOST_LISTED - 1)
  redis.call('PEXPIRE', prefix .. 'limits', 604800000)
  return l.count + 1
end
