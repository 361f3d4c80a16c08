-- Let a spooled record count once, by its id: its first entry stays, any other is removed before it is dispatched.
-- KEYS  1 events  2 first:<id>  3 verdict:<id>
-- ARGV  1 group  2 entry  3 event id  4 from ms  5 to ms: the times of an entry that may have arrived before it was spooled
--       6 ttl ms  7 '1' to look only  8.. fields of the report that its agent fell back, if it did
-- Returns 1 if this entry counts, 0 if another one does.
local first, answered = redis.call('GET', KEYS[2]), false
if first == ARGV[2] then return 1 end
if not first then
  answered = redis.call('EXISTS', KEYS[3]) == 1
  for _, row in ipairs(redis.call('XRANGE', KEYS[1], ARGV[4], ARGV[5], 'COUNT', 20000)) do
    if row[1] == ARGV[2] then break end
    local fields = {}
    for i = 1, #row[2], 2 do fields[row[2][i]] = row[2][i + 1] end
    if fields.id == ARGV[3] then
      first, answered = row[1], answered or fields.verdict ~= nil
      break
    end
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
