-- sliding_window. Value: start of the current window, its count, the count before. Limit: {kind, requests, period}.

return {
  -- Charges all of `units` to a value: returns the new value and when it expires, or nil and how many units fit.
  -- Returns nil alone if the numbers are too large for that.
  charge = function(limit, value, units, now)
    local period, start, current, previous = limit[3], limit.start, 0, 0
    if not start then
      start = now - fmod(now, period)
      limit.start = start
    end
    if value then
      if #value ~= 21 then
        return nil
      end
      local written, found, before = unpack_bytes('>I7I7I7', value)
      if written == start then
        current, previous = found, before
      elseif written + period == start then
        previous = found
      end
    end
    local room = limit[2] - current
    if previous > 0 then
      local weighed = previous * (start + period - now)
      if weighed >= WIDE then
        return nil
      end
      room = room - ceil(weighed / period)
    end
    if units <= room then
      return pack_bytes('>I7I7I7', start, current + units, previous), start + 2 * period
    end
    return nil, room
  end,
  expires = function(limit, value)
    return unpack_bytes('>I7', value) + 2 * limit[3]
  end,
}
