-- Look up what some sessions did since a reader last asked, and what is not on record yet (workers/memory/recent.py).
-- KEYS  1 events  2 requests  3 waiting  4 alive:dispatcher
-- ARGV  1 prefix of all keys  2 the group that keeps the record  3 the group of the evaluators  4 the most requests under way
--       5 the most events, and 6 the most bytes of them, that are not on record; then for each session: its key, the key of the
--       session that it counted for and the number of the last change, as far as known ('' for not), '1' if its deeds are
--       wanted, and the time of the last one known
-- Returns the ms now, and `busy` if more is under way than that; else `empty`, `not kept` or `kept` (shared/record.lua), the
-- entries' ids of requests under way, the events not on record, 1 if a dispatcher runs, and a list for each session: the key of
-- the session that it counts for; the number of its last change; its tokens; the last secret with its time; when it last waited
-- and when a person last wrote; `same` if nothing has changed, else `calls` or `all` (whether they are the changed calls or
-- all of them), and the calls with their states; and `deeds` or `all`, and deeds with their times, the last one first.
-- It reads only: two readers disturb neither each other nor the dispatcher. A change bears a number (memory/facts.lua).
local prefix = ARGV[1]
-- with family
-- with record
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local record, last, failed = record_of(KEYS[1], ARGV[2])
if failed then return failed end

local function flat_ids(rows)
  local ids = {}
  for _, row in ipairs(rows) do ids[#ids + 1] = row[1] end
  return ids
end

local function under_way()
  local count = redis.call('XLEN', KEYS[2])
  if count > tonumber(ARGV[4]) or redis.call('XLEN', KEYS[3]) > 0 then return nil end
  local ids = count > 0 and flat_ids(redis.call('XPENDING', KEYS[2], ARGV[3], '-', '+', count)) or {}
  return #ids == count and ids or nil  -- else some were handed to nobody yet
end

local function not_on_record()
  local most, size = tonumber(ARGV[5]), 0
  local rows = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', most + 1)
  for _, id in ipairs(flat_ids(redis.call('XPENDING', KEYS[1], ARGV[2], '-', '+', most + 1))) do
    for _, row in ipairs(redis.call('XRANGE', KEYS[1], id, id)) do rows[#rows + 1] = row end
  end
  for _, row in ipairs(rows) do
    for _, part in ipairs(row[2]) do size = size + #part end
  end
  return #rows <= most and size <= tonumber(ARGV[6]) and rows or nil
end

local asked, unread = {}, {}
if last then
  asked, unread = under_way(), not_on_record()
  if not asked or not unread then return {now, 'busy'} end
end

local function changed_calls(key, known, recent)
  local from, rows = string.match(recent or '', '^(%d+)(.*)$')
  if not known or not from or known < tonumber(from) then return 'all', redis.call('HGETALL', key) end
  local names, found = {}, {}
  for number, name in string.gmatch(rows, ' (%d+)=(%S+)') do
    if tonumber(number) > known then names[#names + 1] = name end
  end
  local states = #names > 0 and redis.call('HMGET', key, unpack(names)) or {}
  for i, name in ipairs(names) do
    found[#found + 1] = name
    found[#found + 1] = states[i] or ''
  end
  return 'calls', found
end

local function changed_deeds(key, known, behind, since)
  if known and since ~= '' and known >= tonumber(behind or '0') then
    return 'deeds', redis.call('ZREVRANGEBYSCORE', key, '+inf', since, 'WITHSCORES')
  end
  return 'all', redis.call('ZREVRANGE', key, 0, -1, 'WITHSCORES')
end

local found = {now, record, asked, unread, redis.call('EXISTS', KEYS[4])}
for at = 7, #ARGV, 5 do
  local root = root_of(ARGV[at])
  local key, facts = prefix .. 'repeats:' .. root, prefix .. 'facts:' .. root
  local state = redis.call('HMGET', key, 'changed', 'waited', 'prompt', 'recent', 'behind')
  local tokens = redis.call('HGET', prefix .. 'spent:session:' .. root, 'tokens:all')
  local secret = redis.call('ZREVRANGE', facts .. ':secrets', 0, 0, 'WITHSCORES')
  local row = {root, state[1] or '', tokens or '0', secret, state[2] or '0', state[3] or '0', 'same', {}, 'deeds', {}}
  if not state[1] or state[1] ~= ARGV[at + 2] or root ~= ARGV[at + 1] then
    local known = state[1] and root == ARGV[at + 1] and tonumber(ARGV[at + 2])
    row[7], row[8] = changed_calls(key, known, state[4])
    if ARGV[at + 3] == '1' then row[9], row[10] = changed_deeds(facts, known, state[5], ARGV[at + 4]) end
  end
  found[#found + 1] = row
end
return found
