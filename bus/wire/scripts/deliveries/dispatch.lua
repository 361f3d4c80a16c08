-- Turn one event into its deliveries, once: ready, or parked if their target may not be tried now. A disabled endpoint gets
-- no delivery; the events that it misses are counted.
-- KEYS  1 events  2 body:<event>  3 recent  4 stats
-- ARGV  1 group ('' for a replay, which has nothing to acknowledge)  2 entry  3 event id  4 now ms  5 prefix of all keys  6 body  7 parent
--       8 stream of the event's own host, if that host has hooks of its own ('': it has none, '-': this is that host)
--       9 ms that it is kept  10 event type  11 tool  12 session  13 what to count  then for each delivery: id, stream, target, cap, timeout ms, kind, hook, version, layer, and how it is paced ('' or
--       `name=value` words: rate, line, order in it, batch)
-- Returns the number of deliveries added, -1 if another dispatcher had acknowledged the entry.
if ARGV[1] ~= '' and redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return -1 end
local prefix, at = ARGV[5], ARGV[4]
-- with gates
-- with counting
local created = {}
for i = 14, #ARGV, 10 do
  local id, target, key = ARGV[i], ARGV[i + 2], prefix .. 'delivery:' .. ARGV[i]
  if gate(target).halt == 'disabled' then
    redis.call('HINCRBY', prefix .. 'halted:' .. target, 'missed', 1)
  elseif redis.call('HSETNX', key, 'state', 'ready') == 1 then
    redis.call('HSET', key, 'event', ARGV[3], 'stream', ARGV[i + 1], 'target', target, 'cap', ARGV[i + 3],
      'timeout', ARGV[i + 4], 'kind', ARGV[i + 5], 'hook', ARGV[i + 6], 'version', ARGV[i + 7], 'layer', ARGV[i + 8],
      'attempts', 0, 'tries', 0, 'created', at, 'updated', at, 'type', ARGV[10])
    if ARGV[11] ~= '' then redis.call('HSET', key, 'tool', ARGV[11]) end
    if ARGV[12] ~= '' then redis.call('HSET', key, 'session', ARGV[12]) end
    if ARGV[i + 9] ~= '' then
      for name, value in string.gmatch(ARGV[i + 9], '(%a+)=(%S+)') do redis.call('HSET', key, name, value) end
      local ms, number = string.match(ARGV[2], '^(%d+)-(%d+)$')  -- events are in order by the ids of their entries
      redis.call('HSETNX', key, 'order', ms * 4096 + math.min(number, 4095))
    end
    redis.call('ZADD', KEYS[3], at, id)
    if ARGV[i + 5] == 'command' then
      if ARGV[7] ~= '' then redis.call('HSET', key, 'parent', ARGV[7]) end  -- its run will need it (take.lua)
    end
    created[#created + 1] = i
  end
end
if #created > 0 then
  redis.call('HSETNX', KEYS[2], 'data', ARGV[6])
  redis.call('HINCRBY', KEYS[2], 'refs', #created)
  redis.call('HINCRBY', KEYS[4], 'deliveries:owed', #created)
end
for _, i in ipairs(created) do
  local id, target, key = ARGV[i], ARGV[i + 2], prefix .. 'delivery:' .. ARGV[i]
  if ARGV[i + 9] ~= '' then
    go(id, key, way(key))
  elseif closed(target, id) then
    start(target, id, key, ARGV[i + 1])
  else
    send(target, id, ARGV[i + 1])
  end
end
if ARGV[8] ~= '' and ARGV[8] ~= '-' then
  redis.call('XADD', ARGV[8], '*', 'data', ARGV[6])
  redis.call('PEXPIRE', ARGV[8], ARGV[9])
  redis.call('ZADD', prefix .. 'kept', 'NX', at, string.sub(ARGV[8], #prefix + 8))  -- after `events:`
end
if ARGV[8] ~= '-' then redis.call('HINCRBY', KEYS[4], 'events', 1) end
count(ARGV[13])
write_counts(prefix)
return #created
