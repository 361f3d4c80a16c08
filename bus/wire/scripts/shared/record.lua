-- How far a group has read the stream of events: `empty` if no event has ever been added, `not kept` if there is no such group,
-- else `kept` with the last entry that it was handed; or, in the third place, the error of a server that does not say it.
local function record_of(events, kept_by)
  local record, last = 'empty', nil
  local groups = redis.pcall('XINFO', 'GROUPS', events)
  if groups.err then
    if not string.find(string.lower(groups.err), 'no such key', 1, true) then return nil, nil, groups end
    return record
  end
  for _, group in ipairs(groups) do
    local name, delivered
    for i = 1, #group, 2 do
      if group[i] == 'name' then name = group[i + 1] elseif group[i] == 'last-delivered-id' then delivered = group[i + 1] end
    end
    if name == kept_by then last = delivered end
    record = last and 'kept' or 'not kept'
  end
  return record, last
end
