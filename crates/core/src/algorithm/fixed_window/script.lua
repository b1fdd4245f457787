-- fixed_window. State: {end of the window, count}.
-- Limit: {kind, requests, period, boundaries}; boundaries only for calendar windows.

local window_end = values[FIXED_WINDOW].window_end

-- The count, if it belongs to the window with this end, else 0.
local function count_in(state, window)
  return state[1] == window and state[2] or 0
end

return {
  read = function(value)
    if value then
      return { unpack_bytes('>I7I7', value) }
    end
    return { 0, 0 }
  end,
  pack = function(state)
    return pack_bytes('>I7I7', state[1], state[2])
  end,
  -- How many units fit; negative if more were taken than the limit has.
  room = function(limit, state, now)
    return limit[2] - count_in(state, window_end(limit, now))
  end,
  -- The room after a charge that does not fit was taken all the same. A count stops at the largest there is.
  exceed = function(limit, room, cost)
    return max(room - cost, limit[2] - EXACT)
  end,
  take = function(limit, state, cost, now)
    local window = window_end(limit, now)
    state[2] = count_up(count_in(state, window), cost)
    state[1] = window
  end,
  -- An earlier charge (`taken_at`) is refunded only if its window is still the current one.
  give_back = function(limit, state, cost, now, taken_at)
    local window = window_end(limit, now)
    if taken_at and (taken_at > now or window_end(limit, taken_at) ~= window) then
      return
    end
    state[2] = max(count_in(state, window) - cost, 0)
    state[1] = window
  end,
}
