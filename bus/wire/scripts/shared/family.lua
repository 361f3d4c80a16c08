-- The session that a session counts for: the topmost of its parents that is known. For a script with the local `prefix`.
local function root_of(session)
  for _ = 1, 16 do
    local above = redis.call('GET', prefix .. 'family:' .. session)
    if not above or above == session then break end
    session = above
  end
  return session
end
