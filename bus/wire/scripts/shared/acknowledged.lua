-- Acknowledges a request's entry, once. For scripts with the locals `stream`, `moved` (the key of new ids), `group`, `entry`
-- (which gets the new id) and `consumer` (who has to have the entry; '' for any).
-- A full server refuses a script whose first write needs memory. XACK needs none, so it is first, and the script may go on.
local function acknowledged()
  if consumer ~= '' then
    -- This evaluator was stopped while its hooks ran, and another one claimed the request and ran them again: that one
    -- answers.
    local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1)  -- an error where the server lost its data
    if #pending == 0 or pending[1][2] ~= consumer then return false end
  end
  return redis.call('XACK', stream, group, entry) == 1
end
-- The server lost its data (FLUSHALL) while this request was evaluated: the caller still waits, and nobody else has the request.
local function is_lost()
  if redis.call('EXISTS', stream) == 0 then return true end
  local since = redis.call('HGET', moved, 'since')
  return since and tonumber(string.match(entry, '^%d+')) < tonumber(since)
end
if not acknowledged() then
  local new = redis.call('HGET', moved, entry)  -- its id was made up, and the repair has given it another
  if new then entry = new end
  if not (new and acknowledged()) and not is_lost() then return 0 end
end
redis.call('XDEL', stream, entry)
