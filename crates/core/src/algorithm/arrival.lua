-- token_bucket and leaky_bucket. State: {when it was written, debt then (hi, lo), the requests and the
-- trace of the burst it was written under}. Limit: {kind, requests, period, burst, trace, queue, what the
-- bucket holds if that is a small number}.
--
-- Where Rust keeps the moment the bucket will be empty, this keeps the debt and when it was that much:
-- the same, and it needs no division.

-- What is written down, whether the bucket can hold it or not.
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

-- Traces from here on are of overdrawn buckets, and say how many binary digits the microseconds have in which
-- the bucket drains.
local OVERDRAWN = 816
-- Ten years, in which what is overdrawn drains at the latest.
local MOST_US = 315360000000000

local function least(a_hi, a_lo, b_hi, b_lo)
  if at_most(a_hi, a_lo, b_hi, b_lo) then
    return a_hi, a_lo
  end
  return b_hi, b_lo
end

-- At most what the bucket holds, unless it was overdrawn. More is found if the limit was lowered, and then it
-- is full; or if the clock stepped back, and then it is empty.
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
  -- The usual charge, `times` over: answers the new value and when it expires, or nothing if none fits;
  -- or `true` if it is not that: the limit has changed, the clock stepped, the numbers are large.
  quick = function(limit, value, cost, times, now)
    local requests, most = limit[2], limit[7]
    if not most then
      return true
    end
    local owed = 0
    if value then
      if #value ~= 23 then
        return true
      end
      local at, lo, scale, trace = unpack_bytes('>I7I7I7I2', value)
      if scale ~= requests or trace ~= limit[5] or at > now or lo > most then
        return true
      end
      local drained = (now - at) * scale
      owed = drained < lo and lo - drained or 0
    end
    local one = cost * limit[3]
    local fitting = min(times, floor((most - owed) / one))
    if fitting > 0 then
      owed = owed + fitting * one
      return pack_bytes('>I7I7I7I2', now, owed, requests, limit[5]), now + ceil(owed / requests) + 1
    end
  end,
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
  copy = function(state)
    return { state[1], state[2], state[3], state[4], state[5] }
  end,
  -- About when the bucket is empty, never before.
  expires = function(_, state)
    if state[4] == 0 then
      return state[1] + 1
    end
    return state[1] + ceil((state[2] * WIDE + state[3]) / state[4] * 1.0000001) + 1
  end,
  fits = function(limit, state, cost, now, hold)
    if limit[2] == 0 then
      return cost == 0
    end
    local hi, lo = debt(limit, state, now)
    if limit[6] == 1 then
      if cost == 0 or hi == 0 and lo == 0 then
        return true
      elseif not hold then
        return false
      end
    end
    hi, lo = add(hi, lo, mul(cost, limit[3]))
    return at_most(hi, lo, capacity(limit))
  end,
  -- Zero requests is a ban: the bucket is left as it is, for the limit that comes after.
  take = function(limit, state, cost, now)
    if limit[2] > 0 then
      local before_hi, before_lo = debt(limit, state, now)
      local hi, lo = add(before_hi, before_lo, mul(cost, limit[3]))
      local most_hi, most_lo = capacity(limit)
      -- What is overdrawn stays so.
      if at_most(most_hi, most_lo, before_hi, before_lo) then
        most_hi, most_lo = before_hi, before_lo
      end
      write(limit, state, now, least(hi, lo, most_hi, most_lo))
    end
  end,
  -- The same for what was used already: all of it is owed.
  overdraw = function(limit, state, cost, now)
    if limit[2] > 0 then
      local hi, lo = debt(limit, state, now)
      write(limit, state, now, add(hi, lo, mul(cost, limit[3])))
    end
  end,
  -- Of an earlier charge, what may have drained since is not given back.
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
  -- After the limit's numbers have changed, what is owed now is owed on at the new rate.
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
