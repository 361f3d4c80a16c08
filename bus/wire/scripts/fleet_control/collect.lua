-- Reserve the messages in a session's post box for one request, whose answer carries them. The same request gets the same ones
-- again, since another evaluator may have to answer it; another request gets them only when nobody waits for this one.
-- KEYS  1 mail  2 mail:<box>
-- ARGV  1 prefix of all keys  2 box  3 request  4 now ms  5 until when the request is waited for (ms)
-- Returns for each message {id, by, text}.
local found, left = {}, 0
for _, id in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  local message = ARGV[1] .. 'message:' .. id
  local row = redis.call('HMGET', message, 'for:' .. ARGV[2], 'by', 'text', 'got:' .. ARGV[2])
  if not row[3] or row[4] then
    redis.call('LREM', KEYS[2], 0, id)
  else
    left = left + 1
    local by, till = string.match(row[1] or '', '^(%S+) (%d+)$')
    if not by or by == ARGV[3] or tonumber(till) < tonumber(ARGV[4]) then
      found[#found + 1] = {id, row[2], row[3]}
      redis.call('HSET', message, 'for:' .. ARGV[2], ARGV[3] .. ' ' .. ARGV[5])
    end
  end
end
if left == 0 then redis.call('ZREM', KEYS[1], ARGV[2]) end
return found
