-- Let a spooled record count once, by its id: its first entry stays, any other is removed before it is dispatched.
-- KEYS  1 events  2 first:<id>  3 verdict:<id>
-- ARGV  1 group  2 entry  3 event id  4 from ms  5 to ms: the times of an entry that may have arrived before it was spooled
--       6 ttl ms  7 '1' to look only  8.. fields of the report that its agent fell back, if it did
-- Returns 1 if this entry counts, 0 if another one does.
-- A search passes all events around. Thousands of events of one spool come together, so the search for the first of them also
-- notes the first entry of each later one: it covers theirs too, if they were written later. What fell back is left out, because
-- an evaluator may still answer it.
local function note(row, fields, seen, born)
  local id = fields.id
  if not (id and fields.spooled) or fields.fallback or fields.of or seen[id] then return end
  local time = #id == 33 and tonumber(string.sub(id, 2, 13), 16)
  if time and time >= born then
    local prefix = string.sub(KEYS[2], 1, #KEYS[2] - #ARGV[3])
    redis.call('SET', prefix .. id, row, 'NX', 'PX', ARGV[6])
  end
end
local first, answered = redis.call('GET', KEYS[2]), false
if first == ARGV[2] then return 1 end
if not first then
  answered = redis.call('EXISTS', KEYS[3]) == 1
  local seen, past, born = {}, false, (tonumber(ARGV[4]) + tonumber(ARGV[5])) / 2
  for _, row in ipairs(redis.call('XRANGE', KEYS[1], ARGV[4], ARGV[5], 'COUNT', 20000)) do
    past = past or row[1] == ARGV[2]
    if ARGV[7] == '1' and (past or first) then break end
    local fields = {}
    for i = 1, #row[2], 2 do fields[row[2][i]] = row[2][i + 1] end
    if fields.id == ARGV[3] then
      if not (past or first) then first, answered = row[1], answered or fields.verdict ~= nil end
    elseif past then
      note(row[1], fields, seen, born)
    end
    if fields.id then seen[fields.id] = true end
  end
  if ARGV[7] ~= '1' then
    redis.call('SET', KEYS[2], first or (answered and 'answered') or ARGV[2], 'PX', ARGV[6])
  end
end
if not first and not answered then return 1 end
if ARGV[7] ~= '1' then
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
  redis.call('XDEL', KEYS[1], ARGV[2])
  -- The verdict is recorded already; the report that the agent fell back is new.
  if answered and #ARGV > 7 then redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 8)) end
end
return 0
