-- Fibers with their own stacks, a private arena, a log on disk, a snapshot by another thread, an exhausted stack.
box.cfg({wal_mode = "write", log_level = 0, memtx_memory = 64 * 1024 * 1024})
local fiber = require("fiber")
local space = box.schema.space.create("shelf")
space:create_index("primary")
local done, fibers = 0, {}
for i = 1, 100 do
  fibers[i] = fiber.new(function()
    for j = 1, 50 do
      space:replace({i * 1000 + j, ("x"):rep(j * 10)})
      done = done + 1
      if j % 10 == 0 then fiber.yield() end
    end
  end)
  fibers[i]:set_joinable(true)
end
for _, one in ipairs(fibers) do one:join() end
print(done, space:count())
box.snapshot()
local bytes = 0
for _, tuple in space:pairs() do bytes = bytes + #tuple[2] end
print(bytes)
local function deep() return 1 + deep() end
print((pcall(deep)))
os.exit(3)
