local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local MOST_PARTS = 4000  -- an entry with more is not an event, and Lua could not pass so many arguments
local moved = {}

local function made_up(id) return tonumber(string.match(id, '^%d+')) > now + AHEAD_MS end

-- When an entry with a made-up id was sent: the time in its id, but not before the stream was last seen in order, and not
-- after now. So an expired request stays expired.
local function sent_at(fields)
  local born = tonumber(string.match(fields.id or '', '^e(%x%x%x%x%x%x%x%x%x%x%x%x)%x+$') or '0', 16)
  return string.format('%.0f', math.max(SINCE_MS, math.min(born, now)))
end

local function copy(row)
  local id, parts = row[1], row[2]
  while #parts > MOST_PARTS do parts[#parts] = nil end
  if not made_up(id) then
    redis.call('XADD', fresh, id, unpack(parts))
    return
  end
  local fields = {}
  for i = 1, #parts, 2 do fields[parts[i]] = parts[i + 1] end
  parts[#parts + 1], parts[#parts + 2] = 'sent', sent_at(fields)  -- last, because the last field of a name counts
  local new = redis.call('XADD', fresh, '*', unpack(parts))
  moved[#moved + 1], moved[#moved + 2] = id, new
  if not fields.id or not string.match(fields.id, '^[%w_-]+$') or #fields.id > 64 then return end
  local first = prefix .. 'first:' .. fields.id
  if redis.call('GET', first) == id then
    redis.call('SET', first, new, 'PX', math.max(1, redis.call('PTTL', first)))
  end
  local claim = prefix .. 'claim:' .. fields.id
  local holder, old = redis.call('GET', claim), stream .. ' ' .. id .. ' '
  if holder and string.sub(holder, 1, #old) == old then
    local mine = stream .. ' ' .. new .. ' ' .. string.sub(holder, #old + 1)
    redis.call('SET', claim, mine, 'PX', math.max(1, redis.call('PTTL', claim)))
  end
end

local function rows_after(cursor, most)
  if cursor == '18446744073709551615-18446744073709551615' then return {} end  -- the server refuses to read beyond it
  return redis.call('XRANGE', stream, cursor == '' and '-' or '(' .. cursor, '+', 'COUNT', most)
end

-- Copy entries after `cursor`, at most so many. Returns the id of the last one, the number of entries and of bytes.
local function copy_page(cursor, most)
  local bytes, number = 0, 0
  for _, row in ipairs(rows_after(cursor, most)) do
    for _, part in ipairs(row[2]) do bytes = bytes + #part end
    cursor, number = row[1], number + 1
    copy(row)
  end
  return cursor, number, bytes
end
