-- sliding_window. State: {start of the current window, its count, the count of the previous window}.
-- Limit: {kind, requests, period}.

-- The start and count of the window that contains `now`, and the count of the one before. A window that
-- lies in the future, because the clock stepped back, does not count.
local function seen(limit, state, now)
  local start = now - fmod(now, limit[3])
  if state[1] == start then
    return start, state[2], state[3]
  elseif state[1] + limit[3] == start then
    return start, 0, state[2]
  end
  return start, 0, 0
end

-- How many units fit beside a count of the current window and previous x overlap; negative if those are too many.
local function room_beside(limit, current, previous, start, now)
  local hi, lo = mul(previous, limit[3] - (now - start))
  return limit[2] - current - divide_up(hi, lo, limit[3])
end

return {
  read = function(value)
    if value then
      return { unpack_bytes('>I7I7I7', value) }
    end
    return { 0, 0, 0 }
  end,
  pack = function(state)
    return pack_bytes('>I7I7I7', state[1], state[2], state[3])
  end,
  -- How many units fit; negative if more were taken than the limit has.
  room = function(limit, state, now)
    local start, current, previous = seen(limit, state, now)
    return room_beside(limit, current, previous, start, now)
  end,
  -- The room after a charge that does not fit was taken all the same. A count stops at the largest there is.
  exceed = function(limit, room, cost, state, now)
    local start, _, previous = seen(limit, state, now)
    return max(room - cost, room_beside(limit, EXACT, previous, start, now))
  end,
  take = function(limit, state, cost, now)
    local start, current, previous = seen(limit, state, now)
    state[1], state[2], state[3] = start, count_up(current, cost), previous
  end,
  -- Refunds to the current window first, then to the previous one. An earlier charge (`taken_at`) is
  -- refunded to its own window, if that is one of the two.
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
