-- Numbers beyond 2^53, where Lua's own stop being exact: hi x 2^52 + lo, both whole.

local WIDE = 4503599627370496 -- 2^52
local EXACT = 9007199254740992 -- 2^53

local function carry(hi, lo)
  if lo >= WIDE then
    return hi + 1, lo - WIDE
  end
  return hi, lo
end

-- A count of at most 2^53 times a time below 2^52. The halves are cut so that no product of two of
-- them passes 2^53.
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

-- Never below zero.
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

local function at_most(a_hi, a_lo, b_hi, b_lo)
  return a_hi < b_hi or a_hi == b_hi and a_lo <= b_lo
end

-- The sum of two counts, which stops at the largest there is.
local function count_up(count, cost)
  return cost > EXACT - count and EXACT or count + cost
end
