-- Generated code, C functions called from it and back, coroutines, an exhausted stack, blocks of the C library.
local ffi = require("ffi")
ffi.cdef([[
void *malloc(size_t bytes);
void free(void *block);
void qsort(void *base, size_t count, size_t bytes, int (*compare)(const int *, const int *));
]])

local places = {}
for i = 1, 200000 do places[i % 5000] = {i, tostring(i)} end
print(#places[77][2], places[4999][1])

local numbers = ffi.cast("int *", ffi.C.malloc(4000))
for i = 0, 999 do numbers[i] = (i * 7919) % 1000 end
local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b) return a[0] - b[0] end)
ffi.C.qsort(numbers, 1000, 4, compare)
print(numbers[0], numbers[500], numbers[999])
compare:free()
ffi.C.free(numbers)
for _ = 1, 20000 do ffi.gc(ffi.C.malloc(100), ffi.C.free) end

local routines, sum = {}, 0
for i = 1, 2000 do
  routines[i] = coroutine.wrap(function(x)
    for j = 1, 20 do x = coroutine.yield(x + j) end
    return x
  end)
end
for j = 1, 20 do
  for i = 1, 2000 do sum = sum + routines[i](j) end
end
print(sum)

local function deep() return 1 + deep() end
print(pcall(deep))
print(#string.rep("x", 10000000))
collectgarbage()
