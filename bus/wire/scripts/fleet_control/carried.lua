-- Record that the answer to a request has carried messages, if somebody still waited for it.
-- KEYS  1 mail  2 mail:<box>  3 events  4 late
-- ARGV  1 prefix of all keys  2 box  3 request  4 now ms  5 host  6 session  7 source  8.. ids of the messages
for i = 8, #ARGV do
  local id = ARGV[i]
  local message = ARGV[1] .. 'message:' .. id
  local row = redis.call('HMGET', message, 'for:' .. ARGV[2], 'got:' .. ARGV[2])
  local by, till = string.match(row[1] or '', '^(%S+) (%d+)$')
  if by == ARGV[3] and not row[2] and tonumber(till) >= tonumber(ARGV[4]) then
    redis.call('LREM', KEYS[2], 0, id)
    redis.call('HSET', message, 'got:' .. ARGV[2], ARGV[3] .. ' ' .. ARGV[4])
    redis.call('HDEL', message, 'for:' .. ARGV[2])
    -- The id of the event is made of its content, so the script needs no random numbers.
    local name = string.format('e%012x%s', ARGV[4], string.sub(redis.sha1hex(id .. ARGV[2]), 1, 20))
    local body = cmsgpack.pack({v = 1, type = 'message:delivered', id = name, source = 'fleethook', host = ARGV[5],
      session = ARGV[6], time = tonumber(ARGV[4]), data = {message = id, agent = ARGV[7], event = ARGV[3]}})
    local fields = {'id', name, 'source', 'fleethook', 'event', 'message:delivered', 'host', ARGV[5], 'body', body,
      'parent', ARGV[3]}
    local added = redis.pcall('XADD', KEYS[3], '*', unpack(fields))
    if type(added) ~= 'string' then redis.call('XADD', KEYS[4], '*', unpack(fields)) end
  end
end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[1], ARGV[2]) end
return 1
