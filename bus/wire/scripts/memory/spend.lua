-- Add up the tokens and the money that models have used, for limits (bus/memory/spending.py).
-- KEYS  1 spent:<scope>:<whose>
-- ARGV  1 prefix of all keys  2 ms that it is kept  3 ms that an event is remembered, so that it counts once, then for each event:
--       its id, its minute, the session that it counts for, the number of the other keys, these keys, the number of amounts, and
--       of each amount: its name (tokens, or a currency) and how much (money in millionths)
-- Returns how many events were added.
local prefix, ttl, remembered, i, added = ARGV[1], ARGV[2], ARGV[3], 4, 0
local MOST_FIELDS, DAY = 4000, 1440

-- with family

local function prune(key, minute)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local at = string.match(field, '^[^:]+:(%d+)$')
    if at and tonumber(at) < minute - DAY then redis.call('HDEL', key, field) end
  end
end

while i <= #ARGV do
  local id, minute, session, n = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3])
  local keys = {prefix .. 'spent:session:' .. root_of(session)}
  for at = i + 4, i + 3 + n do keys[#keys + 1] = prefix .. ARGV[at] end
  local from = i + 5 + n
  local last = from - 1 + 2 * tonumber(ARGV[from - 1])
  if redis.call('SET', prefix .. 'counted:' .. id, '1', 'NX', 'PX', remembered) then
    added = added + 1
    for _, key in ipairs(keys) do
      for at = from, last, 2 do
        redis.call('HINCRBY', key, ARGV[at] .. ':' .. minute, ARGV[at + 1])
        redis.call('HINCRBY', key, ARGV[at] .. ':all', ARGV[at + 1])
      end
      if redis.call('HLEN', key) > MOST_FIELDS then prune(key, minute) end
      redis.call('PEXPIRE', key, ttl)
    end
  end
  i = last + 1
end
return added
