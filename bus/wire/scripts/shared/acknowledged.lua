-- Acknowledges a request's entry, once. For scripts with the locals `stream`, `moved` (the key of new ids), `group`, `entry`
-- (which gets the new id) and `consumer` (who has to have the entry; '' for any).
-- A full server refuses a script whose first write needs memory. XACK needs none, so it is first, and the script may go on.
local function acknowledged()
  if consumer ~= '' then
    -- This evaluator was stopped while its hooks ran, and another one claimed the request and ran them again: that one
    -- answers.
    local pending = redis.call('XPENDING', stream, group, entry, entry, 1)
    if #pending == 0 or pending[1][2] ~= consumer then return false end
  end
  return redis.call('XACK', stream, group, entry) == 1
end
if not acknowledged() then
  entry = redis.call('HGET', moved, entry)  -- its id was made up, and the repair has given it another
  if not entry or not acknowledged() then return 0 end
end
redis.call('XDEL', stream, entry)
