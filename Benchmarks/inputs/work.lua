-- Tables, strings, closures, sorting, coroutines: the allocations of a Lua program.
local rounds = math.max(1, math.floor(12 * tonumber(arg[1])))
local state = 7
local function number(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % limit
end

local function count_words(count)
  local words = {}
  for i = 1, count do
    local letters = {}
    for j = 1, 4 do letters[j] = string.char(97 + number(7)) end
    local word = table.concat(letters)
    words[word] = (words[word] or 0) + i % 13
    if number(20) == 0 then words[word] = nil end
  end
  local keys = {}
  for key in pairs(words) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys, words
end

local total = 0
for round = 1, rounds do
  local keys, words = count_words(50000)
  local lines = {}
  for i, key in ipairs(keys) do
    local add = function(n) return n * words[key] + i end
    lines[i] = string.format("%s=%d; %s", key, add(round), key:rep(3):upper())
  end
  local text = table.concat(lines, "\n")
  local changed, replaced = text:gsub("(%w+)=(%d+)", function(key, value) return value + 1 .. ":" .. key:reverse() end)
  local producer = coroutine.wrap(function() for key, value in changed:gmatch("(%d+):(%w+)") do coroutine.yield({ key, value }) end end)
  for _ = 1, replaced do
    local pair = producer()
    total = (total * 31 + #pair[2] + tonumber(pair[1])) % 1000000007
  end
end
print(total)
