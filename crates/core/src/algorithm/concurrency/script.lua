-- concurrency. A hash of its own: a field for each lease, with when it expires and how many slots it
-- holds. State: {leases by id, ids to write}. Limit: {kind, max, time-out}.

local FORMAT = '>I7I7'

-- A lease that runs longer than the time-out was written before the clock stepped back.
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

local function fits(limit, state, cost, now)
  return cost <= limit[2] - used(limit, state, now)
end

local function put(state, id, lease)
  state[1][id] = lease
  state[2][id] = true
end

return {
  read = function(key)
    local found = call('HGETALL', key)
    local state = { {}, {}, exists = found[1] ~= nil }
    for index = 1, #found, 2 do
      state[1][found[index]] = { unpack_bytes(FORMAT, found[index + 1]) }
    end
    return state, found
  end,
  copy = function(state)
    local leases, ids = {}, {}
    for id, lease in pairs(state[1]) do
      leases[id] = lease
    end
    for id in pairs(state[2]) do
      ids[id] = true
    end
    return { leases, ids, exists = state.exists }
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
  fits = fits,
  -- Slots are never taken beyond the most there are.
  take = function(limit, state, cost, now, lease)
    if not fits(limit, state, cost, now) then
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
  -- A slot is given back by its lease.
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
