-- Deciding requests one by one, in order, because some counter does not have room for all of them. A request takes
-- all of its charges or none.
--
-- A plain request is its cost, how many counters it charges, and those. A request of any other shape begins with -1;
-- then come how many charges it has, and for each counter, cost, mode and lease. A request that takes as much as fits
-- is -2, its cost and its counter.

-- Bits of a charge's mode: a queue's wait can be held; the charge is taken even if its request is denied; it is
-- larger than the limit; a denial is only noted; a denial counts only if all quotas deny.
local HOLD, COUNT_DENIED, NEVER, SHADOW, QUOTA = 1, 2, 4, 8, 16
local STRIDE = 4

local requests = cmsgpack.unpack(argv[2])
-- By charge: whether it fits, and its counter's room before.
local fitted, before = {}, {}

-- Counters that have room for their demand are charged with it as far as it is taken.
local function reduce(counter, cost)
  demand[counter], news[counter] = demand[counter] - cost, UNKNOWN
end

local function deny_plain(first, last, denied_at, cost)
  for at = first, denied_at - 1 do
    local counter = requests[at]
    if rooms[counter] then
      rooms[counter], taken[counter] = rooms[counter] + cost, taken[counter] - cost
    end
  end
  for at = first, last do
    local counter = requests[at]
    if not rooms[counter] then
      reduce(counter, cost)
    elseif cost > rooms[counter] then
      carried[counter] = true
    end
  end
end

local function settle_plain(first, last, cost)
  for at = first, last do
    local counter = requests[at]
    local room = rooms[counter]
    if room then
      if cost > room then
        return deny_plain(first, last, at, cost)
      end
      rooms[counter], taken[counter] = room - cost, taken[counter] + cost
    end
  end
end

local function has(mode, flag)
  return mode % (2 * flag) >= flag
end

local function fits(counter, cost, mode)
  local room, algorithm = rooms[counter], limits[limit_of[counter]].algorithm
  if not room then
    return true
  elseif has(mode, NEVER) then
    return false
  elseif algorithm.fits then
    return algorithm.fits(limits[limit_of[counter]], room, cost, has(mode, HOLD))
  end
  return cost <= room
end

-- Reduces a counter's room by a charge that may be larger.
local function use_room(counter, cost)
  local room, limit = rooms[counter], limits[limit_of[counter]]
  if room and cost > room then
    rooms[counter] = limit.algorithm.exceed(limit, room, cost, open(counter), now)
  elseif room then
    rooms[counter] = room - cost
  end
end

local function take(counter, cost, lease)
  local limit = limits[limit_of[counter]]
  if limit.algorithm.by_lease then
    limit.algorithm.take(limit, states[counter], cost, now, lease)
    states[counter].dirty = true
  elseif rooms[counter] then
    taken[counter] = min(taken[counter] + cost, EXACT)
  end
end

-- Tries all charges of a request, each after those before it. Returns whether the request is denied.
local function try(first, last)
  local denied, quota = false, nil
  for at = first, last, STRIDE do
    local counter, cost, mode = requests[at], requests[at + 1], requests[at + 2]
    local allowed = fits(counter, cost, mode)
    fitted[at], before[at] = allowed, rooms[counter]
    if cost > 0 and (allowed or has(mode, COUNT_DENIED)) then
      use_room(counter, cost)
    end
    if mode >= QUOTA then
      quota = quota or allowed
    elseif mode < SHADOW then
      denied = denied or not allowed
    end
  end
  return denied or quota == false
end

local function settle(first, last)
  local denied = try(first, last)
  if denied then
    for at = last + 1 - STRIDE, first, -STRIDE do
      rooms[requests[at]] = before[at]
    end
  end
  for at = first, last, STRIDE do
    local counter, cost, mode = requests[at], requests[at + 1], requests[at + 2]
    if cost == 0 then
      -- It only looks.
    elseif fitted[at] and not denied then
      take(counter, cost, requests[at + 3])
    elseif has(mode, COUNT_DENIED) then
      if denied then
        use_room(counter, cost)
      end
      take(counter, cost, requests[at + 3])
    elseif not rooms[counter] then
      reduce(counter, cost)
    elseif not fits(counter, cost, mode) then
      carried[counter] = true
    end
  end
end

-- Takes as many units as fit.
local function take_up_to(counter, units)
  local room = rooms[counter]
  if room and room > 0 then
    units = min(units, room)
    rooms[counter], taken[counter] = room - units, taken[counter] + units
  elseif room and units > 0 then
    carried[counter] = true
  end
end

-- Leaves out a request that needs a foreign counter. Returns whether it is one.
local function leave_out(first, last, stride, cost)
  local is_one = false
  for at = first, last, stride do
    is_one = is_one or foreign[requests[at]]
  end
  for at = first, is_one and last or 0, stride do
    local counter = requests[at]
    if not rooms[counter] then
      reduce(counter, cost or requests[at + 1])
    end
  end
  return is_one
end

local any_foreign = next(foreign)
local at, length = 1, #requests
while at < length do
  local cost, first = requests[at], at + 2
  if cost >= 0 then
    at = first + requests[at + 1]
    if not (any_foreign and leave_out(first, at - 1, 1, cost)) then
      settle_plain(first, at - 1, cost)
    end
  elseif cost == -2 then
    at = first + 1
    take_up_to(requests[first], requests[first - 1])
  else
    at = first + STRIDE * requests[at + 1]
    if not (any_foreign and leave_out(first, at - 1, STRIDE)) then
      set_up()
      settle(first, at - 1)
    end
  end
end
