-- fixed_window. Value: end of the window, count. Limit: {kind, requests, period, boundaries}.

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

return {
  window_end = window_end,
  -- Charges all of `units` to a value: returns the new value and when it expires, or nil and how many units fit.
  charge = function(limit, value, units, now)
    local window, count = limit.window, 0
    if not window then
      window = window_end(limit, now)
      limit.window = window
    end
    if value then
      if #value ~= 14 then
        return nil
      end
      local written, found = unpack_bytes('>I7I7', value)
      if written == window then
        count = found
      end
    end
    if units <= limit[2] - count then
      return pack_bytes('>I7I7', window, count + units), window
    end
    return nil, limit[2] - count
  end,
  expires = function(_, value)
    return (unpack_bytes('>I7', value))
  end,
}
