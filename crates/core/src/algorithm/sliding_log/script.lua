-- sliding_log. Each key is a Redis list, oldest stamp first. A stamp has its time, its cost, and the sum of
-- all costs up to it since the list began, so the units of any range of the list are one subtraction.
-- State: the units that count now, and the pending changes to the list. Limit: {kind, requests, period}.

local FORMAT, STAMP_BYTES = '>I7I7I7', 21
local CHUNK = 16
-- How many of the oldest stamps are returned one by one.
local FEW = 1000
-- How many stamps may be rewritten to refund to one before them. If there are more, nothing is refunded.
local MOST_REWRITTEN = 10000

local function stamp(key, index)
  local value = read_key('LINDEX', key, index)
  if value then
    return decode(FORMAT, STAMP_BYTES, value)
  end
end

-- The number of expired stamps at the beginning of the list.
local function count_old(limit, key, now)
  local old, oldest = 0, now - limit[3]
  while true do
    local chunk = read_key('LRANGE', key, old, old + CHUNK - 1)
    for _, value in ipairs(chunk) do
      if decode(FORMAT, STAMP_BYTES, value) > oldest then
        return old
      end
      old = old + 1
    end
    if #chunk < CHUNK then
      return old
    end
  end
end

-- The first stamp, from index `first` on, whose running sum is at least `sum`.
local function reaches(key, first, sum)
  local low, high = first, call('LLEN', key) - 1
  while low < high do
    local middle = floor((low + high) / 2)
    local _, _, total = stamp(key, middle)
    if total >= sum then
      high = middle
    else
      low = middle + 1
    end
  end
  return stamp(key, low)
end

-- Appends the oldest stamps that together hold `needed` units to `found`, as alternating times and costs.
local function oldest(key, first, needed, found)
  local held, index = 0, first
  while held < needed and index < first + FEW do
    local at, cost = stamp(key, index)
    if not at then
      return found
    end
    insert(found, at)
    insert(found, cost)
    held, index = held + cost, index + 1
  end
  if held < needed then
    local _, cost, before = stamp(key, first)
    local at = reaches(key, first, before - cost + needed)
    insert(found, at)
    insert(found, needed - held)
  end
  return found
end

-- Applies the pending changes to the list.
local function flush(limit, key, state, now)
  if state.ahead then
    call('DEL', key)
  elseif state.old > 0 then
    call('LTRIM', key, state.old, -1)
  end
  state.ahead, state.old = false, 0
  if state.add > 0 then
    local at, cost, total = stamp(key, -1)
    if at == now then
      call('LSET', key, -1, pack_bytes(FORMAT, now, cost + state.add, total + state.add))
    else
      call('RPUSH', key, pack_bytes(FORMAT, now, state.add, (total or 0) + state.add))
    end
    state.add = 0
  end
  while state.trim > 0 do
    local at, cost, total = stamp(key, 0)
    if cost > state.trim then
      call('LSET', key, 0, pack_bytes(FORMAT, at, cost - state.trim, total))
      state.trim = 0
    else
      call('LPOP', key)
      state.trim = state.trim - cost
    end
  end
  if state.over then
    -- The log is full without the stamps beyond the limit.
    for _ = 1, call('LLEN', key) - limit[2] do
      call('LPOP', key)
    end
    state.over = false
  end
  call('PEXPIRE', key, ceil(limit[3] / 1000) + 1000)
end

-- Refunds to the stamp of one microsecond, and subtracts the same from the running sums after it. Returns
-- the units refunded.
local function give_back_at(key, taken_at, cost)
  local low, last = 0, call('LLEN', key) - 1
  local high = last
  while low < high do
    local middle = floor((low + high) / 2)
    if stamp(key, middle) >= taken_at then
      high = middle
    else
      low = middle + 1
    end
  end
  local at, held, total = stamp(key, low)
  if at ~= taken_at or last - low > MOST_REWRITTEN then
    return 0
  end
  local given, after = min(cost, held), call('LRANGE', key, low + 1, -1)
  call('LTRIM', key, 0, low)
  if given < held then
    call('LSET', key, low, pack_bytes(FORMAT, at, held - given, total - given))
  else
    call('RPOP', key)
  end
  for _, value in ipairs(after) do
    local later, its_cost, its_total = unpack_bytes(FORMAT, value)
    call('RPUSH', key, pack_bytes(FORMAT, later, its_cost, its_total - given))
  end
  return given
end

return {
  -- Returns the state, and for the Rust code: the units that count, the time of the newest stamp, and the
  -- oldest stamps. `asked` is the largest cost that the calls of this batch ask for.
  read = function(key, limit, now, asked)
    local newest, _, total = stamp(key, -1)
    local state = { key = key, used = 0, old = 0, add = 0, trim = 0, exists = newest ~= nil }
    if not newest then
      return state, { 0, 0 }
    elseif newest > now then
      state.ahead = true
      return state, { 0, 0 }
    end
    state.old = count_old(limit, key, now)
    local _, cost, before = stamp(key, state.old)
    if not cost then
      return state, { 0, 0 }
    end
    state.used = total - before + cost
    local needed = min(state.used, state.used + asked - limit[2])
    return state, oldest(key, state.old, needed, { state.used, newest })
  end,
  write = flush,
  -- How many units fit; negative if more were taken than the limit has.
  room = function(limit, state)
    return limit[2] - state.used
  end,
  -- The room after a charge that does not fit was taken all the same: the log is full.
  exceed = function(limit, room)
    return limit[2] > 0 and 0 or room
  end,
  -- Of more units than the limit allows, the newest are kept.
  take = function(limit, state, cost)
    cost = min(cost, limit[2])
    if cost == 0 then
      return
    end
    state.add, state.used = state.add + cost, state.used + cost
    if state.used > limit[2] then
      state.trim, state.used = state.trim + state.used - limit[2], limit[2]
    end
  end,
  -- Charges what has been used already: all of it counts, even beyond the limit.
  overdraw = function(limit, state, cost)
    cost = min(cost, EXACT - state.used)
    if limit[2] > 0 then
      state.add, state.used, state.over = state.add + cost, state.used + cost, true
    end
  end,
  -- Refunds the newest stamps first. An earlier charge (`taken_at`) is refunded to its own stamp.
  give_back = function(limit, state, cost, now, taken_at)
    local key = state.key
    flush(limit, key, state, now)
    if taken_at then
      state.used = state.used - give_back_at(key, taken_at, cost)
      return
    end
    while cost > 0 do
      local at, held, total = stamp(key, -1)
      if not at then
        break
      end
      local given = min(cost, held)
      if given < held then
        call('LSET', key, -1, pack_bytes(FORMAT, at, held - given, total - given))
      else
        call('RPOP', key)
      end
      cost, state.used = cost - given, state.used - given
    end
  end,
}
