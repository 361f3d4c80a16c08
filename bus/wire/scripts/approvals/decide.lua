-- Decide a question, once: a person approves or denies it, or it ends by itself. Gives the held request back to an evaluator.
-- KEYS  1 question:<id>  2 questions  3 decided  4 events  5 late
-- ARGV  1 id  2 approve, deny, due (look what is due) or overtake  3 by  4 via (token, user, link)  5 comment
--       6 prefix of all keys  7 ms that a ticket is valid  8 ms that a decided question is kept
-- Returns {word, state, by, number}: `done` (this call decided), `before` (it was decided before), `more` (so many more
-- persons have to approve), `refused` (this person cannot approve it), `early` (nothing is due), `unknown`.
-- with counting
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local f = {}
local row = redis.call('HGETALL', KEYS[1])
for i = 1, #row, 2 do f[row[i]] = row[i + 1] end
if not f.state then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'unknown', '', '', 0}
end
if f.state ~= 'waiting' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'before', f.state, f.by or '', 0}
end
local verb, due, ends = ARGV[2], tonumber(f.due), tonumber(f.ends)

-- Give the request back to the evaluators, with the state that its answer is made from.
local function hand_back(state)
  local fields = {}
  for name, value in pairs(f) do
    local raw = string.match(name, '^request:(.+)$')
    if raw then fields[#fields + 1], fields[#fields + 2] = raw, value end
  end
  if f.verdict then fields[#fields + 1], fields[#fields + 2] = 'verdict', f.verdict end
  for _, name in ipairs({'by', 'via', 'asked', 'answered', 'comment'}) do  -- a request has fields of these names too
    if f[name] then fields[#fields + 1], fields[#fields + 2] = 'approval:' .. name, f[name] end
  end
  redis.call('XADD', KEYS[3], '*', 'id', ARGV[1], 'reply', f.reply, 'state', state, unpack(fields))
  redis.call('HSET', KEYS[1], 'replied', now)
  for name in pairs(f) do
    if string.find(name, '^request:') or name == 'verdict' then redis.call('HDEL', KEYS[1], name) end
  end
end

-- The agent waits no longer than `due`: after it the call is denied with a ticket, and the question goes on.
if now >= due and due < ends and not f.replied then
  hand_back('waiting')
  f.replied = tostring(now)
  redis.call('ZADD', KEYS[2], ends, ARGV[1])
end

-- Who has approved so far.
local function approvers()
  local names = {}
  for name in pairs(f) do
    local person = string.match(name, '^yes:(.*)$')
    if person then names[#names + 1] = person end
  end
  table.sort(names)
  return names
end

local state
if now >= ends then state = 'timed_out'
elseif verb == 'overtake' then state = 'overtaken'
elseif verb == 'due' then return {'early', f.state, '', 0}
elseif verb == 'deny' then
  if f.named == '1' and ARGV[4] == 'link' then return {'refused', f.state, '', 0} end
  state = 'denied'
else
  for _, need in ipairs(cjson.decode(f.needs or '[]')) do
    if ARGV[4] ~= 'token' then return {'refused', f.state, '', 0} end
    local member = #need.members == 0
    for _, name in ipairs(need.members) do member = member or name == ARGV[3] end
    if not member then return {'refused', f.state, '', 0} end
  end
  local missing = 0
  redis.call('HSET', KEYS[1], 'yes:' .. ARGV[3], now)
  f['yes:' .. ARGV[3]] = tostring(now)
  for _, need in ipairs(cjson.decode(f.needs or '[]')) do
    missing = math.max(missing, need.persons - #approvers())
  end
  if missing > 0 then
    redis.call('HSET', KEYS[1], 'votes', table.concat(approvers(), '\n'))
    return {'more', f.state, '', missing}
  end
  state = 'approved'
end

f.state = state
local change = {'state', state}
if state == 'approved' or state == 'denied' then
  f.by, f.via, f.answered = ARGV[3], ARGV[4], tostring(now)
  if verb == 'approve' then f.by = table.concat(approvers(), ', ') end
  if ARGV[5] ~= '' then f.comment = ARGV[5] end
  change = {'state', state, 'by', f.by, 'via', f.via, 'answered', f.answered, 'comment', f.comment or ''}
else
  f.answered = tostring(now)
  change = {'state', state, 'answered', f.answered}
end
if not f.replied then
  hand_back(state)
elseif state == 'approved' then
  redis.call('SET', ARGV[6] .. 'ticket:' .. f.hash, ARGV[1], 'PX', ARGV[7])
end
if state == 'approved' and (f.twin or '') ~= '' then  -- for the next event of the same call, which has another name
  redis.call('SET', ARGV[6] .. 'ticket:' .. f.twin, ARGV[1] .. ' ' .. f.native, 'PX', ARGV[7])
end
redis.call('HSET', KEYS[1], unpack(change))
redis.call('HDEL', KEYS[1], 'input')  -- kept for who decides; the event's record has it too
redis.call('PEXPIRE', KEYS[1], ARGV[8])
redis.call('ZREM', KEYS[2], ARGV[1])
observe_long('approval_wait_seconds', now - tonumber(f.asked))
write_counts(ARGV[6])

-- Announce it. The id of the event is made of its content and time, so the script needs no random numbers.
local data = cjson.decode(f.about)
data.state, data.by, data.via, data.comment = state, f.by or '', f.via or '', f.comment or ''
local person = f.via ~= nil and f.via ~= ''
local kind = person and 'approval:answered' or 'approval:ended'
local id = string.format('e%012x%s', now, string.sub(redis.sha1hex(kind .. ARGV[1] .. now), 1, 20))
local body = cmsgpack.pack({v = 1, type = kind, id = id, source = 'fleethook', host = f.host, session = f.session, tool = f.tool,
  cwd = f.cwd, time = now, data = data})
local fields = {'id', id, 'source', 'fleethook', 'event', kind, 'host', f.host, 'body', body, 'parent', ARGV[1]}
for _, name in ipairs({'traceparent', 'tracestate'}) do
  if f[name] then fields[#fields + 1], fields[#fields + 2] = name, f[name] end
end
local added = redis.pcall('XADD', KEYS[4], '*', unpack(fields))
if type(added) ~= 'string' then redis.call('XADD', KEYS[5], '*', unpack(fields)) end
return {'done', state, f.by or '', 0}
