-- Settles a batch of requests: loads every counter once, decides every request in order, writes what has
-- changed, and returns the time and what each counter held before. The caller replays the same requests from the
-- same states and the same time, and so knows every verdict.
--
-- Most batches need no decision for each request: where every counter has room for all that the batch asks of
-- it, its demand, every request is allowed in whatever order, and each counter is charged once for all of them,
-- as it is stored (`load.lua`). The rest of the script runs only when a batch needs it.
--
-- KEYS: hashes that hold many small counters each, then one key for each large counter.
-- ARGV[1]: packed, in this order: the time to settle by, or nil for the server's own; limits; how many fields of
--   each hash are used; the limit of each counter, small ones first; the demand of each counter; then, each
--   nil if there are none: the most that is asked of each large counter, refunds, overruns, slots.
-- ARGV[2]: requests, packed; see `requests.lua`.
-- ARGV[3..]: the fields of the small counters, in the order of their hashes.

local call, fmod, floor, ceil, max, min = redis.call, math.fmod, math.floor, math.ceil, math.max, math.min
local pack_bytes, unpack_bytes, insert = struct.pack, struct.unpack, table.insert
local keys, argv = KEYS, ARGV
local WIDE, EXACT = 4503599627370496, 9007199254740992 -- 2^52; 2^53, up to which Lua's numbers are exact
local FIRST_FIELD = 3

local function decimal(number)
  return string.format('%.0f', number)
end

local args = cmsgpack.unpack(argv[1])
local now, limits, hash_sizes, limit_of, demand = args[1], args[2], args[3], args[4], args[5]
local hashes, counters, smalls = #hash_sizes, #limit_of, 0

if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local used = {}
for index = 1, #limits do
  local limit = limits[index]
  used[limit[1]] = true
  local boundaries = limit[1] == FIXED_WINDOW and limit[4]
  if boundaries and (now < boundaries[1] or now >= boundaries[4]) then
    -- A calendar's windows that do not contain the time: the caller sends newer ones.
    return { 0, now }
  end
end

-- What is returned: the time, then what each counter held, `false` for one that did not exist.
local answer = { now }
-- Stands for a counter that another program has overwritten. Nothing is charged to it, nor to the other counters
-- of the same request.
local FOREIGN = -1

-- By small counter: its new value, `UNKNOWN` if that has to be worked out yet, `false` if it stays as it is.
local news, UNKNOWN = {}, true
-- By counter, for those that do not have room for their demand: how many units fit, how many were taken, and
-- whether a denied charge brings the state to the limit's present numbers.
local rooms, taken, carried = {}, {}, {}
-- By counter, for those that cannot be charged as they are stored: the state as a table; and whether it is foreign.
local states, foreign = {}, {}
-- Whether each renewed or released slot was held: 1 or 0.
local held = {}

-- By kind of small counter: what can be done to a counter as it is stored.
local values = {}
