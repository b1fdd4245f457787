-- sub_windows. A hash of its own: field `n` is the number of the newest bucket, every other field the
-- place of a bucket in the ring, and its count. State: {newest, counts by place, places to write}.
-- Limit: {kind, requests, period, buckets}.

-- Whether bucket x period is at most `hi, lo`.
local function begun(bucket, period, hi, lo)
  local bucket_hi, bucket_lo = mul(bucket, period)
  return at_most(bucket_hi, bucket_lo, hi, lo)
end

-- floor(now x buckets / period): guessed first, then put right without rounding.
local function bucket_at(limit, now)
  local period, buckets = limit[3], limit[4]
  local within = fmod(now, period)
  local bucket = floor(within / period * buckets)
  local hi, lo = mul(buckets, within)
  while not begun(bucket, period, hi, lo) do
    bucket = bucket - 1
  end
  while begun(bucket + 1, period, hi, lo) do
    bucket = bucket + 1
  end
  return (now - within) / period * buckets + bucket
end

-- What the buckets hold that count while `bucket` is the current one.
local function used(limit, state, bucket)
  local newest, sum = state[1], 0
  if newest > bucket then
    return 0
  end
  for number = max(bucket + 1 - limit[4], 0), newest do
    sum = sum + (state[2][fmod(number, limit[4])] or 0)
  end
  return sum
end

local function put(state, place, count)
  state[2][place] = count > 0 and count or nil
  state[3][place] = true
end

-- Makes `bucket` the newest and empties those that fall out.
local function advance(limit, state, bucket)
  local newest = state[1]
  if newest > bucket or bucket - newest >= limit[4] then
    for place in pairs(state[2]) do
      put(state, place, 0)
    end
  else
    for number = newest + 1, bucket do
      put(state, fmod(number, limit[4]), 0)
    end
  end
  state[1] = bucket
end

return {
  read = function(key)
    local found = call('HGETALL', key)
    local state = { 0, {}, {}, exists = found[1] ~= nil }
    for index = 1, #found, 2 do
      if found[index] == 'n' then
        state[1] = tonumber(found[index + 1])
      else
        state[2][tonumber(found[index])] = tonumber(found[index + 1])
      end
    end
    return state, found
  end,
  copy = function(state)
    local counts, places = {}, {}
    for place, count in pairs(state[2]) do
      counts[place] = count
    end
    for place in pairs(state[3]) do
      places[place] = true
    end
    return { state[1], counts, places, exists = state.exists }
  end,
  write = function(limit, key, state)
    for place in pairs(state[3]) do
      local count = state[2][place]
      if count then
        call('HSET', key, place, decimal(count))
      else
        call('HDEL', key, place)
      end
    end
    call('HSET', key, 'n', decimal(state[1]))
    call('PEXPIRE', key, ceil(limit[3] * 2 / 1000) + 1000)
  end,
  fits = function(limit, state, cost, now)
    return cost <= limit[2] - used(limit, state, bucket_at(limit, now))
  end,
  take = function(limit, state, cost, now)
    local bucket = bucket_at(limit, now)
    advance(limit, state, bucket)
    local place = fmod(bucket, limit[4])
    local most = EXACT - used(limit, state, bucket)
    put(state, place, (state[2][place] or 0) + min(cost, most))
  end,
  -- From the newest bucket back; what was taken earlier goes back to the bucket it came from.
  give_back = function(limit, state, cost, now, taken_at)
    local bucket = bucket_at(limit, now)
    advance(limit, state, bucket)
    local from, to = bucket, max(bucket + 1 - limit[4], 0)
    if taken_at then
      from = bucket_at(limit, taken_at)
      if from > bucket then
        return
      end
      to = max(from, to)
    end
    for number = from, to, -1 do
      local place = fmod(number, limit[4])
      local count = state[2][place] or 0
      local given = min(cost, count)
      if given > 0 then
        put(state, place, count - given)
      end
      cost = cost - given
      if cost == 0 then
        break
      end
    end
  end,
}
