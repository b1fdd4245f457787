-- concurrency. Each key is a Redis hash with a field for each slot holder: when its slots expire, and how
-- many they are. State: {leases by holder ID, IDs to write}. Limit: {kind, max, timeout}.

local FORMAT = '>I7I7'

-- Whether the slots are still held at `now`. If they run longer than the timeout, they were written before
-- the clock stepped back, and no longer count.
local function live(limit, lease, now)
  return now < lease[1] and lease[1] - now <= limit[3]
end

local function used(limit, state, now)
  local sum = 0
  for _, lease in pairs(state[1]) do
    if live(limit, lease, now) then
      sum = sum + lease[2]
    end
  end
  return sum
end

local function room(limit, state, now)
  return limit[2] - used(limit, state, now)
end

local function put(state, id, lease)
  state[1][id] = lease
  state[2][id] = true
end

return {
  read = function(key)
    local found = read_key('HGETALL', key)
    local state = { {}, {}, exists = found[1] ~= nil }
    for index = 1, #found, 2 do
      state[1][found[index]] = { decode(FORMAT, 14, found[index + 1]) }
    end
    return state, found
  end,
  write = function(limit, key, state)
    for id in pairs(state[2]) do
      local lease = state[1][id]
      if lease then
        call('HSET', key, id, pack_bytes(FORMAT, lease[1], lease[2]))
      else
        call('HDEL', key, id)
      end
    end
    call('PEXPIRE', key, ceil(limit[3] / 1000) + 1000)
  end,
  -- How many slots are free.
  room = room,
  -- The room after a charge that does not fit: no slot is taken beyond the most there are.
  exceed = function(_, free)
    return free
  end,
  -- Charges cannot be added up: each has a lease of its own.
  one_by_one = function()
    return true
  end,
  by_lease = true,
  -- Slots are never taken beyond the most there are.
  take = function(limit, state, cost, now, lease)
    if cost > room(limit, state, now) then
      return
    end
    for id, held in pairs(state[1]) do
      if not live(limit, held, now) then
        put(state, id, nil)
      end
    end
    local held = state[1][lease]
    put(state, lease, { now + limit[3], (held and held[2] or 0) + cost })
  end,
  -- Slots are returned with `release`.
  give_back = function() end,
  renew = function(limit, state, lease, now)
    local held = state[1][lease]
    if not held or not live(limit, held, now) then
      return false
    end
    put(state, lease, { now + limit[3], held[2] })
    return true
  end,
  release = function(limit, state, lease, now)
    local held = state[1][lease]
    if not held then
      return false
    end
    put(state, lease, nil)
    return live(limit, held, now)
  end,
}
