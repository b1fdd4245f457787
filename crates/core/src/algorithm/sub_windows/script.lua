-- sub_windows. Each key is a Redis hash: field `n` is the number of the newest bucket; every other field
-- is the index of a bucket in the ring, and its value is the count.
-- State: {newest, counts by index, indexes to write}. Limit: {kind, requests, period, buckets}.

-- Whether bucket x period is at most the wide number `hi, lo`.
local function begun(bucket, period, hi, lo)
  local bucket_hi, bucket_lo = mul(bucket, period)
  return at_most(bucket_hi, bucket_lo, hi, lo)
end

-- floor(now x buckets / period): estimated in floating point first, then corrected exactly.
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

-- The units that count while `bucket` is the current one.
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

local function put(state, index, count)
  state[2][index] = count > 0 and count or nil
  state[3][index] = true
end

-- Makes `bucket` the newest one and clears the buckets that leave the window.
local function advance(limit, state, bucket)
  local newest = state[1]
  if newest > bucket or bucket - newest >= limit[4] then
    for index in pairs(state[2]) do
      put(state, index, 0)
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
    local found = read_key('HGETALL', key)
    local state = { 0, {}, {}, exists = found[1] ~= nil }
    for index = 1, #found, 2 do
      if found[index] == 'n' then
        state[1] = number(found[index + 1])
      else
        state[2][number(found[index])] = number(found[index + 1])
      end
    end
    return state, found
  end,
  write = function(limit, key, state)
    for index in pairs(state[3]) do
      local count = state[2][index]
      if count then
        call('HSET', key, index, decimal(count))
      else
        call('HDEL', key, index)
      end
    end
    call('HSET', key, 'n', decimal(state[1]))
    call('PEXPIRE', key, ceil(limit[3] * 2 / 1000) + 1000)
  end,
  -- How many units fit; negative if more were taken than the limit has.
  room = function(limit, state, now)
    return limit[2] - used(limit, state, bucket_at(limit, now))
  end,
  -- The room after a charge that does not fit was taken all the same. A count stops at the largest there is.
  exceed = function(limit, room, cost)
    return max(room - cost, limit[2] - EXACT)
  end,
  take = function(limit, state, cost, now)
    local bucket = bucket_at(limit, now)
    advance(limit, state, bucket)
    local index = fmod(bucket, limit[4])
    local most = EXACT - used(limit, state, bucket)
    put(state, index, (state[2][index] or 0) + min(cost, most))
  end,
  -- Refunds to the newest bucket first, then to the ones before it. An earlier charge (`taken_at`) is
  -- refunded to its own bucket.
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
      local index = fmod(number, limit[4])
      local count = state[2][index] or 0
      local given = min(cost, count)
      if given > 0 then
        put(state, index, count - given)
      end
      cost = cost - given
      if cost == 0 then
        break
      end
    end
  end,
}
