-- Trim the event stream by age and by number, never what a group has not acknowledged.
-- KEYS  1 events
-- ARGV  1 oldest id to keep by age  2 most entries  3 most entries over that number to remove now  4 how many to read at
--       once (they are read whole)
-- Returns {number removed by age, number removed by number}. Removes nothing until a group has read the stream.
local function parts(id)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
local function before(a, b)
  local am, as = parts(a)
  local bm, bs = parts(b)
  return am < bm or (am == bm and as < bs)
end
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0} end
-- The first id that some group still needs: its oldest pending entry, else the one after its last delivered.
local needed = nil
for _, row in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local name, last = nil, nil
  for i = 1, #row, 2 do
    if row[i] == 'name' then name = row[i + 1] elseif row[i] == 'last-delivered-id' then last = row[i + 1] end
  end
  local pending = redis.call('XPENDING', KEYS[1], name)
  local ms, seq = string.match(last, '(%d+)-(%d+)')
  local first = pending[2] or (ms .. '-' .. string.format('%.0f', seq + 1))
  if needed == nil or before(first, needed) then needed = first end
end
if needed == nil then return {0, 0} end
local aged = redis.call('XTRIM', KEYS[1], 'MINID', before(needed, ARGV[1]) and needed or ARGV[1])
local excess, removed = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[2]), 0
while excess > 0 and removed < tonumber(ARGV[3]) do
  local most = math.min(excess, tonumber(ARGV[3]) - removed, tonumber(ARGV[4]))
  for _, row in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', most)) do
    if not before(row[1], needed) then return {aged, removed} end
    redis.call('XDEL', KEYS[1], row[1])
    removed, excess = removed + 1, excess - 1
  end
end
return {aged, removed}
