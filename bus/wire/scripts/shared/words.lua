-- A word to a dispatcher that sleeps until a later time, for scripts with a local `prefix` (of all keys).
-- Access rights that are older than the key do not allow it; then the dispatcher finds out within a second.
local function give_word()
  redis.pcall('XADD', prefix .. 'words', 'MAXLEN', 1, '*', 'due', 1)
end
