-- fixed_window. State: {end of the window, count}. Limit: {kind, requests, period, boundaries}.

local function window_end(limit, now)
  local boundaries = limit[4]
  if not boundaries then
    return now - fmod(now, limit[3]) + limit[3]
  end
  -- Of a calendar: where the previous window begins, the current, the next, and the one after.
  local index = 2
  while boundaries[index] <= now do
    index = index + 1
  end
  return boundaries[index]
end

local function count_in(state, window)
  return state[1] == window and state[2] or 0
end

return {
  -- The usual charge, `times` over: answers the new value and when it expires, or nothing if none fits.
  quick = function(limit, value, cost, times, now)
    local window, count = window_end(limit, now), 0
    if value then
      local written, found = unpack_bytes('>I7I7', value)
      count = written == window and found or 0
    end
    local fitting = min(times, floor((limit[2] - count) / cost))
    if fitting > 0 then
      return pack_bytes('>I7I7', window, count + fitting * cost), window
    end
  end,
  read = function(value)
    if value then
      return { unpack_bytes('>I7I7', value) }
    end
    return { 0, 0 }
  end,
  pack = function(state)
    return pack_bytes('>I7I7', state[1], state[2])
  end,
  copy = function(state)
    return { state[1], state[2] }
  end,
  expires = function(_, state)
    return state[1]
  end,
  fits = function(limit, state, cost, now)
    return cost <= limit[2] - count_in(state, window_end(limit, now))
  end,
  take = function(limit, state, cost, now)
    local window = window_end(limit, now)
    state[2] = count_up(count_in(state, window), cost)
    state[1] = window
  end,
  -- What was taken earlier goes back only while its window lasts.
  give_back = function(limit, state, cost, now, taken_at)
    local window = window_end(limit, now)
    if taken_at and (taken_at > now or window_end(limit, taken_at) ~= window) then
      return
    end
    state[2] = max(count_in(state, window) - cost, 0)
    state[1] = window
  end,
}
