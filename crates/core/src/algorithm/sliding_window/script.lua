-- sliding_window. State: {start of the current window, its count, the count before}.
-- Limit: {kind, requests, period}.

-- The counts as seen from `now`; a window that lies ahead does not count.
local function seen(limit, state, now)
  local start = now - fmod(now, limit[3])
  if state[1] == start then
    return start, state[2], state[3]
  elseif state[1] + limit[3] == start then
    return start, 0, state[2]
  end
  return start, 0, 0
end

return {
  -- The usual charge, `times` over: answers the new value and when it expires, or nothing if none fits;
  -- or `true` if the numbers are too large for it.
  quick = function(limit, value, cost, times, now)
    local period = limit[3]
    local start, current, previous = now - fmod(now, period), 0, 0
    if value then
      local written, found, before = unpack_bytes('>I7I7I7', value)
      if written == start then
        current, previous = found, before
      elseif written + period == start then
        previous = found
      end
    end
    local weighed = previous * (period - (now - start))
    if weighed >= EXACT then
      return true
    end
    local beyond = fmod(weighed, period)
    local used = current + (weighed - beyond) / period + (beyond > 0 and 1 or 0)
    local fitting = min(times, floor((limit[2] - used) / cost))
    if fitting > 0 then
      return pack_bytes('>I7I7I7', start, current + fitting * cost, previous), start + 2 * period
    end
  end,
  read = function(value)
    if value then
      return { unpack_bytes('>I7I7I7', value) }
    end
    return { 0, 0, 0 }
  end,
  pack = function(state)
    return pack_bytes('>I7I7I7', state[1], state[2], state[3])
  end,
  copy = function(state)
    return { state[1], state[2], state[3] }
  end,
  expires = function(limit, state)
    return state[1] + 2 * limit[3]
  end,
  -- previous x overlap must fit into what the current window and the cost leave.
  fits = function(limit, state, cost, now)
    local period = limit[3]
    local start, current, previous = seen(limit, state, now)
    local room = limit[2] - current
    if room < cost then
      return false
    end
    room = room - cost
    local left = period - (now - start)
    local weighed, budget = previous * left, room * period
    if weighed < EXACT and budget < EXACT then
      return weighed <= budget
    end
    local weighed_hi, weighed_lo = mul(previous, left)
    return at_most(weighed_hi, weighed_lo, mul(room, period))
  end,
  take = function(limit, state, cost, now)
    local start, current, previous = seen(limit, state, now)
    state[1], state[2], state[3] = start, count_up(current, cost), previous
  end,
  -- Into the current window first, then into the one before; what was taken in an earlier window goes
  -- back into that one while it counts.
  give_back = function(limit, state, cost, now, taken_at)
    local start, current, previous = seen(limit, state, now)
    local taken_in = taken_at and taken_at - fmod(taken_at, limit[3]) or start
    if taken_in ~= start then
      if taken_in + limit[3] == start then
        state[1], state[2], state[3] = start, current, max(previous - cost, 0)
      end
      return
    end
    local given = min(cost, current)
    state[1], state[2], state[3] = start, current - given, max(previous - (cost - given), 0)
  end,
}
