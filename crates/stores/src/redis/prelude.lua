-- What every part of the script uses.

local call, fmod, floor, ceil, max, min = redis.call, math.fmod, math.floor, math.ceil, math.max, math.min
local pcall_server = redis.pcall
local insert, pack_bytes, unpack_bytes = table.insert, struct.pack, struct.unpack

local function decimal(number)
  return string.format('%.0f', number)
end

local args = cmsgpack.unpack(ARGV[1])
local now, limits = args[1], args[2]

if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local algorithms, used = {}, {}
for _, limit in ipairs(limits) do
  used[limit[1]] = true
end

