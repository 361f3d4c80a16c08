-- Replace a stream by its fresh copy, with the entries added since, its groups, and their pending entries.
-- KEYS  1 stream  2 fresh:<stream>  3 moved:<stream>
-- ARGV  1 prefix of all keys  2 ms that an id may be ahead  3 ms when the stream was last seen in order
--       4 id of the last entry that was copied ('': start again)  5 most entries  6 ttl ms of the new ids
--       7.. made-up ids of entries that were copied, each with its new one
-- Returns {1, number of made-up ids, ms} if the copy replaced the stream, {0} if more than `most` entries were added.
local stream, fresh, prefix, AHEAD_MS, SINCE_MS = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- with copying
if #rows_after(ARGV[4], ARGV[5] + 1) > tonumber(ARGV[5]) then return {0} end
if ARGV[4] == '' then redis.call('DEL', fresh) end
copy_page(ARGV[4], ARGV[5])

local function parts(id)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  return ms, seq
end
-- Compare ids as numbers of up to 20 digits, which Lua's numbers cannot hold.
local function at_most(a, b)
  local am, as = parts(a)
  local bm, bs = parts(b)
  if am ~= bm then return #am < #bm or (#am == #bm and am < bm) end
  return #as < #bs or (#as == #bs and as <= bs)
end

local names, order = {}, {}
for i = 7, #ARGV, 2 do moved[#moved + 1], moved[#moved + 2] = ARGV[i], ARGV[i + 1] end
for i = 1, #moved, 2 do
  names[moved[i]] = moved[i + 1]
  order[#order + 1] = moved[i]
end

-- The last id that a group has read; if that id is made up, the newest of its entries in the copy.
local function read_up_to(last)
  if not made_up(last) then return last end
  local found
  for _, old in ipairs(order) do
    if at_most(old, last) and (not found or at_most(found, old)) then found = old end
  end
  if found then return names[found] end
  local sane = redis.call('XREVRANGE', stream, string.format('%.0f', now + AHEAD_MS), '-', 'COUNT', 1)[1]
  return sane and sane[1] or '0-0'
end

for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local group = {}
  for i = 1, #row, 2 do group[row[i]] = row[i + 1] end
  redis.call('XGROUP', 'CREATE', fresh, group.name, read_up_to(group['last-delivered-id']), 'MKSTREAM')
  local from = '-'
  while true do
    local pending = redis.call('XPENDING', stream, group.name, from, '+', 1000)
    for _, one in ipairs(pending) do
      local id = names[one[1]] or one[1]
      redis.call('XCLAIM', fresh, group.name, one[2], 0, id, 'IDLE', one[3], 'RETRYCOUNT', one[4], 'FORCE', 'JUSTID')
    end
    if #pending < 1000 then break end
    from = pending[#pending][1]
    if from == '18446744073709551615-18446744073709551615' then break end
    from = '(' .. from
  end
end
for _, old in ipairs(order) do redis.call('HSET', KEYS[3], old, names[old]) end
if #order > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[6]) end
if redis.call('EXISTS', fresh) == 1 then
  redis.call('PERSIST', fresh)
  redis.call('RENAME', fresh, stream)
else
  redis.call('DEL', stream)
end
return {1, #order, now}
