-- Trim the event stream by age and by number, never what a group has not acknowledged.
-- KEYS  1 events
-- ARGV  1 oldest id to keep by age  2 most entries  3 most entries to remove now
-- Returns the number removed.
local function parts(id)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
local function before(a, b)
  local am, as = parts(a)
  local bm, bs = parts(b)
  return am < bm or (am == bm and as < bs)
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
-- The first id that some group still needs: its oldest pending entry, else the one after its last delivered.
local needed = nil
for _, row in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local name, last = nil, nil
  for i = 1, #row, 2 do
    if row[i] == 'name' then name = row[i + 1] elseif row[i] == 'last-delivered-id' then last = row[i + 1] end
  end
  local pending = redis.call('XPENDING', KEYS[1], name)
  local ms, seq = parts(last)
  local first = pending[2] or (ms .. '-' .. (seq + 1))
  if needed == nil or before(first, needed) then needed = first end
end
local age = ARGV[1]
if needed and before(needed, age) then age = needed end
local removed = redis.call('XTRIM', KEYS[1], 'MINID', age)
local excess = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[2])
local left = tonumber(ARGV[3])
while excess > 0 and left > 0 do
  local rows = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', math.min(excess, left, 100))
  local gone = 0
  for _, row in ipairs(rows) do
    if needed and not before(row[1], needed) then return removed end
    redis.call('XDEL', KEYS[1], row[1])
    gone = gone + 1
  end
  if gone == 0 then break end
  removed, excess, left = removed + gone, excess - gone, left - gone
end
return removed
