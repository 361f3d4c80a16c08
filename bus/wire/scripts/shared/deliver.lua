-- Adding the deliveries of one event, for scripts with `-- with gates`: ready, or parked if their target may not be tried now.
-- A disabled endpoint gets none; the events that it misses are counted.
-- `first` is the index in ARGV of the first delivery. Each has ten arguments: id, stream, target, cap, timeout ms, kind, hook,
-- version, layer, and how it is paced ('' or `name=value` words: rate, line, order in it, batch).
-- `about` has the event's id, entry, parent, type, tool, session and body; the time `at`; the keys `bodies`, `recent`, `stats`.
-- Returns how many were added.
local NEEDS_PARENT = {command = true, workflow = true}  -- their runs may publish events (take.lua)
local function deliver(first, about)
  local created = {}
  for i = first, #ARGV, 10 do
    local id, target, key = ARGV[i], ARGV[i + 2], prefix .. 'delivery:' .. ARGV[i]
    if gate(target).halt == 'disabled' then
      redis.call('HINCRBY', prefix .. 'halted:' .. target, 'missed', 1)
    elseif redis.call('HSETNX', key, 'state', 'ready') == 1 then
      redis.call('HSET', key, 'event', about.event, 'stream', ARGV[i + 1], 'target', target, 'cap', ARGV[i + 3],
        'timeout', ARGV[i + 4], 'kind', ARGV[i + 5], 'hook', ARGV[i + 6], 'version', ARGV[i + 7], 'layer', ARGV[i + 8],
        'attempts', 0, 'tries', 0, 'created', about.at, 'updated', about.at, 'type', about.type)
      if about.tool ~= '' then redis.call('HSET', key, 'tool', about.tool) end
      if about.session ~= '' then redis.call('HSET', key, 'session', about.session) end
      if ARGV[i + 9] ~= '' then
        for name, value in string.gmatch(ARGV[i + 9], '(%a+)=(%S+)') do redis.call('HSET', key, name, value) end
        local ms, number = string.match(about.entry, '^(%d+)-(%d+)$')  -- events are in order by the ids of their entries
        redis.call('HSETNX', key, 'order', ms * 4096 + math.min(number, 4095))
      end
      redis.call('ZADD', about.recent, about.at, id)
      if NEEDS_PARENT[ARGV[i + 5]] and about.parent ~= '' then redis.call('HSET', key, 'parent', about.parent) end
      created[#created + 1] = i
    end
  end
  if #created > 0 then
    redis.call('HSETNX', about.bodies, 'data', about.body)
    redis.call('HINCRBY', about.bodies, 'refs', #created)
    redis.call('HINCRBY', about.stats, 'deliveries:owed', #created)
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
  return #created
end
