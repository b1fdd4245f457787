-- Numbers beyond 2^53 (`EXACT`), where Lua's own stop being exact: hi x 2^52 (`WIDE`) + lo, both whole.

local function carry(hi, lo)
  if lo >= WIDE then
    return hi + 1, lo - WIDE
  end
  return hi, lo
end

-- Multiplies a count of at most 2^53 by a time below 2^52. Both are split so that no product of two
-- pieces exceeds 2^53.
local function mul(count, time)
  local product = count * time
  if product < WIDE then
    return 0, product
  end
  local count_lo, time_lo = fmod(count, 134217728), fmod(time, 67108864) -- 2^27, 2^26
  local count_hi, time_hi = (count - count_lo) / 134217728, (time - time_lo) / 67108864
  local left, right, low = count_hi * time_lo, count_lo * time_hi, count_lo * time_lo
  local left_lo, right_lo = fmod(left, 33554432), fmod(right, 67108864) -- 2^25, 2^26
  local hi = 2 * count_hi * time_hi + (left - left_lo) / 33554432 + (right - right_lo) / 67108864
  local lo
  hi, lo = carry(hi, left_lo * 134217728 + right_lo * 67108864)
  hi, low = carry(hi, low)
  return carry(hi, lo + low)
end

local function add(a_hi, a_lo, b_hi, b_lo)
  return carry(a_hi + b_hi, a_lo + b_lo)
end

-- Subtracts, saturating at zero.
local function sub(a_hi, a_lo, b_hi, b_lo)
  local hi, lo = a_hi - b_hi, a_lo - b_lo
  if lo < 0 then
    hi, lo = hi - 1, lo + WIDE
  end
  if hi < 0 then
    return 0, 0
  end
  return hi, lo
end

-- Whether a <= b.
local function at_most(a_hi, a_lo, b_hi, b_lo)
  return a_hi < b_hi or a_hi == b_hi and a_lo <= b_lo
end

-- The least count whose product with `time` is at least hi, lo; at most 2^53. Below 2^52 a quotient rounds to no
-- other whole number; above, it is guessed and then put right without rounding.
local function divide_up(hi, lo, time)
  if hi == 0 then
    return ceil(lo / time)
  end
  local count = min(ceil((hi * WIDE + lo) / time), EXACT)
  while count > 0 do
    local less_hi, less_lo = mul(count - 1, time)
    if not at_most(hi, lo, less_hi, less_lo) then
      break
    end
    count = count - 1
  end
  while not at_most(hi, lo, mul(count, time)) do
    count = count + 1
  end
  return count
end

-- The sum of two counts, which stops at the largest there is.
local function count_up(count, cost)
  return cost > EXACT - count and EXACT or count + cost
end
