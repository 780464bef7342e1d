-- Tables, strings, closures, coroutines, metatables and the garbage collector, with and without generational mode.
local state = 7
local function number(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % limit
end

local function work(rounds)
  local words = {}
  for i = 1, rounds do
    local letters = {}
    for j = 1, 5 do letters[j] = string.char(97 + number(5)) end
    local word = table.concat(letters)
    words[word] = (words[word] or 0) + i % 13
    if number(20) == 0 then words[word] = nil end
  end
  local keys = {}
  for key in pairs(words) do keys[#keys + 1] = key end
  table.sort(keys)
  local sum = 0
  for i, key in ipairs(keys) do sum = (sum * 31 + words[key] * i) % 1000000007 end
  return #keys, sum
end

print(work(300000))
collectgarbage("generational")
print(work(200000))
collectgarbage("incremental")
local text = string.rep("key=value; other=12 ", 20000)
local count = 0
for key, value in text:gmatch("(%w+)=(%w+)") do count = count + #key * #value end
print(count, #text:gsub("%d+", function(d) return d * 2 end))
local producer = coroutine.wrap(function() for i = 1, 200000 do coroutine.yield({ i, tostring(i) }) end end)
local total = 0
for i = 1, 200000 do total = total + producer()[1] end
print(total)
local closed = 0
local objects = setmetatable({}, { __mode = "k" })
for i = 1, 50000 do objects[setmetatable({}, { __gc = function() closed = closed + 1 end })] = i end
collectgarbage()
collectgarbage()
print(closed, next(objects))
print(pcall(error, { code = 5 }) == false, select("#", table.unpack({}, 1, 200)))
for i = 1, 2000 do assert(load("local a = {" .. i .. ", 'x', " .. i .. "}; return #a"))() end
print(string.format("%q %5.2f %s", "a\nb", math.pi, utf8.char(228, 8364)))
