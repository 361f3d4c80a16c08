-- Count for the metrics, in the script that makes the change: what is counted is neither lost nor counted twice.
local LONG = {0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400}  -- LONG_BUCKETS of bus/wire/counts.py
local counted = {}

-- Note counts in the form of `bus/wire/counts.py`: lines of a number, a space and a field.
local function count(text)
  for number, field in string.gmatch(text, '(%d+) ([^\n]+)') do
    counted[field] = (counted[field] or 0) + tonumber(number)
  end
end

-- Note one value of a histogram with long buckets; `name` has its labels.
local function observe_long(name, ms)
  local bucket = #LONG
  for i, bound in ipairs(LONG) do
    if ms <= bound * 1000 then bucket = i - 1 break end
  end
  count('1 ' .. name .. '|' .. bucket .. '\n' .. math.max(0, math.floor(ms)) * 1000 .. ' ' .. name .. '|sum')
end

-- Write what was noted: to `metrics`, and what begins with a colon to `stats`. It is no reason to fail: access rights that are
-- older than a key do not allow it.
local function write_counts(prefix)
  for field, number in pairs(counted) do
    local of_stats = string.sub(field, 1, 1) == ':'
    local key, name = prefix .. (of_stats and 'stats' or 'metrics'), of_stats and string.sub(field, 2) or field
    local done = redis.pcall('HINCRBY', key, name, number)
    if type(done) == 'table' and done.err then return end
  end
end
