-- Note that hooks still run for a request, for every reply that waits for it; on a full server too.
-- KEYS  1 reply:<token>:wait  2 list of more replies that wait for it    ARGV  1 ms  2 '1' to only renew notes
-- A full server refuses a script whose first write needs memory; PEXPIRE needs none.
-- It never shortens a note: that of a call that is held by now is valid for as long as the question.
-- Returns whether there was a note for the first reply before.
local function keep(note)
  local left = redis.call('PTTL', note)
  if left == -2 and ARGV[2] == '1' then return 0 end
  local ms = math.max(left, tonumber(ARGV[1]))
  redis.call('PEXPIRE', note, ms)
  if left ~= -2 then return 1 end
  redis.call('RPUSH', note, '1')
  redis.call('PEXPIRE', note, ms)
  return 0
end
local was = keep(KEYS[1])
for _, reply in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do keep(reply .. ':wait') end
return was
