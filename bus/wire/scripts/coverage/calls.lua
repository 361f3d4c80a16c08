-- Note which tool calls were announced before they ran, and which ran without that (workers/coverage/marks.py).
-- KEYS  1 uncovered  2 coverage
-- ARGV  1 prefix of all keys  2 ms that a session is kept  3 ms of grace  4 the most calls of a session that are remembered
--       then for each session: its key  '1' if its agent has pre-hook events  ms of its first event here
--       and four lists, each after its length: names and values of its fields; tools and numbers of its pre-hook events; scores
--       and ids of the calls that they announce; tools and numbers of those without an id
--       and after their number the calls that ran, 6: kind (post, error)  call ('' if the agent has no ids)  tool  score
--       '1' if it may have been noted before  member for `uncovered`
-- Returns how many calls ran without their pre-hook event, as far as is known now.
-- An event may be noted twice: a dispatcher that dies before it acknowledges an event leaves it to another one.
-- The score of a call is its time; that of one that has run, or will not run, is below all others, so it is forgotten first.
local prefix, ttl, grace, most, found, i = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), 0, 5
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SETNX', KEYS[2], now)
while i <= #ARGV do
  local calls, session, judged = prefix .. 'calls:' .. ARGV[i], prefix .. 'coverage:' .. ARGV[i], ARGV[i + 1] == '1'
  redis.call('HSETNX', session, 'first', ARGV[i + 2])
  i = i + 3
  local function list()
    local from, n = i + 1, tonumber(ARGV[i])
    i = from + n
    return from, from + n - 1
  end
  local from, to = list()
  redis.call('HSET', session, unpack(ARGV, from, to))
  from, to = list()
  for at = from, to, 2 do redis.call('HINCRBY', session, 'pre:' .. ARGV[at], ARGV[at + 1]) end
  judged = judged or to >= from or redis.call('HEXISTS', session, 'last_pre') == 1
  from, to = list()
  if to >= from then
    redis.call('ZADD', calls, 'NX', unpack(ARGV, from, to))
    redis.call('ZREMRANGEBYRANK', calls, 0, -most - 1)
    redis.call('PEXPIRE', calls, ttl)
    if tonumber(redis.call('HGET', session, 'uncovered') or '0') > 0 then
      for at = from + 1, to, 2 do
        if redis.call('HDEL', session, 'gap:' .. ARGV[at]) == 1 then redis.call('HINCRBY', session, 'uncovered', -1) end
      end
    end
  end
  from, to = list()
  for at = from, to, 2 do redis.call('HINCRBY', session, 'open:' .. ARGV[at], ARGV[at + 1]) end
  from, to = i + 1, i + 6 * tonumber(ARGV[i])
  i = to + 1
  local ran = {}
  for at = from, judged and to or 0, 6 do
    local failed, call, open = ARGV[at] == 'error', ARGV[at + 1], 'open:' .. ARGV[at + 2]
    local score = call ~= '' and redis.call('ZSCORE', calls, call)
    if score then
      if tonumber(score) > 0 then
        ran[#ran + 1] = ARGV[at + 3]
        ran[#ran + 1] = call
      end
    elseif call ~= '' or ARGV[at + 4] ~= '1' then
      local opened = tonumber(redis.call('HGET', session, open) or '0')
      if opened > 0 or (call == '' and not failed) then redis.call('HINCRBY', session, open, -1) end
      if opened <= 0 and not failed then
        found = found + 1
        redis.call('ZADD', KEYS[1], 'NX', now + grace, ARGV[at + 5])
      end
    end
  end
  if #ran > 0 then redis.call('ZADD', calls, unpack(ran)) end
  redis.call('PEXPIRE', session, ttl)
end
return found
