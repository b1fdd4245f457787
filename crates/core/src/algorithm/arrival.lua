-- token_bucket and leaky_bucket. State: {when it was written, the debt at that time (hi, lo), the requests
-- and the burst trace of the limit that wrote it}. Limit: {kind, requests, period, burst, trace, queue,
-- capacity}; capacity only if the limit has a fast path and sums with it stay exact.
--
-- The Rust code stores the time when the bucket will be empty. This script stores the debt and the time it
-- refers to, which is equivalent and needs no division.

-- The stored debt at `now`, whether or not the bucket can hold it.
local function owed(state, now)
  local hi, lo, passed = state[2], state[3], now - state[1]
  if passed >= 0 then
    if hi == 0 then
      local drained = passed * state[4]
      return 0, drained < lo and lo - drained or 0
    end
    return sub(hi, lo, mul(state[4], passed))
  elseif state[4] == 0 then
    return 0, 0
  end
  -- The clock stepped back.
  return add(hi, lo, mul(state[4], -passed))
end

local function largest_burst(trace)
  if trace < 32 then
    return trace
  end
  return (16 + trace % 16) * 2 ^ (floor(trace / 16) - 1)
end

local function capacity(limit)
  local hi, lo = limit.hi, limit.lo
  if not hi then
    hi, lo = mul(limit[4], limit[3])
    limit.hi, limit.lo = hi, lo
  end
  return hi, lo
end

-- Traces from here on mark overdrawn buckets. The difference is the number of binary digits of the
-- microseconds that the bucket takes to drain.
local OVERDRAWN = 816
-- The longest that an overdrawn bucket may take to drain: ten years.
local MOST_US = 315360000000000

local function least(a_hi, a_lo, b_hi, b_lo)
  if at_most(a_hi, a_lo, b_hi, b_lo) then
    return a_hi, a_lo
  end
  return b_hi, b_lo
end

-- The debt at `now`: at most what the bucket holds, unless it was overdrawn. If more is stored, either the
-- limit was lowered, and the bucket counts as full; or the clock stepped back, and it counts as empty.
local function debt(limit, state, now)
  local hi, lo = owed(state, now)
  local most_hi, most_lo = capacity(limit)
  if at_most(hi, lo, most_hi, most_lo) then
    return hi, lo
  elseif state[5] >= OVERDRAWN then
    local drains_hi, drains_lo = mul(state[4], 2 ^ min(state[5] - OVERDRAWN, 51))
    if at_most(drains_hi, drains_lo, hi, lo) then
      return 0, 0
    end
    return least(hi, lo, mul(limit[2], MOST_US))
  elseif not at_most(hi, lo, mul(largest_burst(state[5]), limit[3])) then
    return 0, 0
  end
  return most_hi, most_lo
end

-- Writes the debt `hi, lo` at `now`, which may exceed what the bucket holds.
local function write(limit, state, now, hi, lo)
  local trace = limit[5]
  hi, lo = least(hi, lo, mul(limit[2], MOST_US))
  if not at_most(hi, lo, capacity(limit)) then
    trace = OVERDRAWN
    local drains_hi, drains_lo = mul(limit[2], 1)
    while at_most(drains_hi, drains_lo, hi, lo) do
      trace = trace + 1
      drains_hi, drains_lo = mul(limit[2], 2 ^ (trace - OVERDRAWN))
    end
  end
  state[1], state[2], state[3], state[4], state[5] = now, hi, lo, limit[2], trace
end

local function refund(limit, state, now, back_hi, back_lo)
  local hi, lo = debt(limit, state, now)
  write(limit, state, now, sub(hi, lo, back_hi, back_lo))
end

return {
  read = function(value)
    if not value then
      return { 0, 0, 0, 0, 0 }
    elseif #value == 23 then
      local at, lo, scale, trace = unpack_bytes('>I7I7I7I2', value)
      return { at, 0, lo, scale, trace }
    end
    return { unpack_bytes('>I7I7I7I7I2', value) }
  end,
  pack = function(state)
    if state[2] == 0 then
      return pack_bytes('>I7I7I7I2', state[1], state[3], state[4], state[5])
    end
    return pack_bytes('>I7I7I7I7I2', state[1], state[2], state[3], state[4], state[5])
  end,
  -- How many units fit; negative if the bucket is overdrawn. Zero requests is a ban, whatever is owed.
  room = function(limit, state, now)
    if limit[2] == 0 then
      return 0
    end
    local hi, lo = debt(limit, state, now)
    if not at_most(hi, lo, capacity(limit)) then
      return -1
    end
    return limit[4] - divide_up(hi, lo, limit[3])
  end,
  -- A queue lets a charge pass at once if it is empty, and else only one that can be held.
  fits = function(limit, room, cost, hold)
    if limit[6] == 1 then
      return cost == 0 or room == limit[4] or hold and cost <= room
    end
    return cost <= room
  end,
  -- Whether charges cannot be added up.
  one_by_one = function(limit)
    return limit[6] == 1
  end,
  -- The room after a charge that does not fit was taken all the same: the bucket is full.
  exceed = function(_, room)
    return min(room, 0)
  end,
  -- Charges up to a full bucket. A limit of zero requests is a ban: the bucket is left unchanged, for when
  -- the ban is lifted.
  take = function(limit, state, cost, now)
    if limit[2] > 0 then
      local before_hi, before_lo = debt(limit, state, now)
      local hi, lo = add(before_hi, before_lo, mul(cost, limit[3]))
      local most_hi, most_lo = capacity(limit)
      -- An overdrawn bucket stays overdrawn.
      if at_most(most_hi, most_lo, before_hi, before_lo) then
        most_hi, most_lo = before_hi, before_lo
      end
      write(limit, state, now, least(hi, lo, most_hi, most_lo))
    end
  end,
  -- Charges what has been used already: all of it is owed, even if that is more than the bucket holds.
  overdraw = function(limit, state, cost, now)
    if limit[2] > 0 then
      local hi, lo = debt(limit, state, now)
      write(limit, state, now, add(hi, lo, mul(cost, limit[3])))
    end
  end,
  -- Refunds. The share of an earlier charge (`taken_at`, `clear_at`) that may have drained is not refunded.
  give_back = function(limit, state, cost, now, taken_at, clear_at)
    if limit[2] > 0 then
      local hi, lo = mul(cost, limit[3])
      if clear_at then
        hi, lo = sub(hi, lo, mul(limit[2], max(now - taken_at, 0)))
        hi, lo = least(hi, lo, mul(limit[2], max(clear_at - now, 0)))
      end
      refund(limit, state, now, hi, lo)
    end
  end,
  -- Rewrites the state after the numbers of the limit have changed: from now on the debt drains at the new
  -- rate. Returns whether the state was changed.
  carry_on = function(limit, state, now)
    if limit[2] == 0 then
      return false
    end
    if state[4] == limit[2] and state[5] == limit[5] then
      local hi, lo = owed(state, now)
      if at_most(hi, lo, capacity(limit)) then
        return false
      end
    end
    local hi, lo = debt(limit, state, now)
    if hi == 0 and lo == 0 then
      return false
    end
    write(limit, state, now, hi, lo)
    return true
  end,
}
