-- token_bucket and leaky_bucket. Value: when it was written, the debt then, the requests and the trace of the burst it
-- was written under; a debt of 2^52 or more is written in two halves. Limit: {kind, requests, period, burst, trace,
-- queue, what the bucket holds if that is a small number}.

return {
  -- Charges all of `units` to a value: returns the new value and when it expires, or nil and how many units fit.
  -- Returns nil alone if the limit has changed, the clock stepped back, or the numbers are too large for that.
  charge = function(limit, value, units, now)
    local requests, period, most, owed = limit[2], limit[3], limit[7], 0
    if not most then
      return nil
    end
    if value then
      if #value ~= 23 then
        return nil
      end
      local at, before, scale, trace = unpack_bytes('>I7I7I7I2', value)
      if scale ~= requests or trace ~= limit[5] or at > now or before > most then
        return nil
      end
      owed = before - (now - at) * scale
      if owed < 0 then
        owed = 0
      end
    end
    local after = owed + units * period
    if after <= most then
      return pack_bytes('>I7I7I7I2', now, after, requests, limit[5]), now + after / requests + 2
    end
    return nil, floor((most - owed) / period)
  end,
  -- About when the bucket is empty, never before.
  expires = function(_, value)
    local at, hi, lo, scale
    if #value == 23 then
      at, lo, scale = unpack_bytes('>I7I7I7', value)
      hi = 0
    else
      at, hi, lo, scale = unpack_bytes('>I7I7I7I7', value)
    end
    return at + 1 + (scale > 0 and ceil((hi * WIDE + lo) / scale * 1.0000001) or 0)
  end,
}
