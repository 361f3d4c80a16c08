-- Follow FLEETHOOK_PARENT upwards through the events whose hooks ran (F-12).
-- KEYS  1 lineage:<parent>
-- ARGV  1 prefix of lineage keys  2 most steps  3 ms of the event that asks
-- Returns a flat list: event id, its number of hooks, the hooks; nearest first. An unknown parent ends the walk.
-- Only hooks that ran when the event was added count ('1': still running; a number: when it ended). Otherwise an old
-- event's id would be enough to switch its hooks off, by naming it as the parent.
local asked = tonumber(ARGV[3])
local chain, key, steps = {}, KEYS[1], 0
while steps < tonumber(ARGV[2]) do
  local all = redis.call('HGETALL', key)
  if #all == 0 then break end
  local parent, hooks = '', {}
  for i = 1, #all, 2 do
    if all[i] == 'parent' then
      parent = all[i + 1]
    elseif all[i + 1] == '1' or asked <= tonumber(all[i + 1]) then
      hooks[#hooks + 1] = string.sub(all[i], 6)
    end
  end
  chain[#chain + 1] = string.sub(key, #ARGV[1] + 1)
  chain[#chain + 1] = #hooks
  for _, hook in ipairs(hooks) do chain[#chain + 1] = hook end
  if parent == '' then break end
  key = ARGV[1] .. parent
  steps = steps + 1
end
return chain
