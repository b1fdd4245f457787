-- Settles a batch of requests: loads every counter once, goes through the requests in order, writes what
-- has changed, and answers the time and what each counter held before. Whoever asked goes through the
-- same requests from the same states and the same time, and so knows every verdict.
--
-- KEYS: hashes that hold many small counters each, then one key for each large counter.
-- ARGV[1]: see below. ARGV[2..]: the fields of the small counters, in the order of their hashes.

-- Nothing for the server's own time; limits; fields per hash; the limit of each counter, small ones first;
-- what may be asked of each large counter; charges that are a request of their own; requests of several;
-- refunds; renewals and releases. Or, where every counter is small and charged in the usual way, only the
-- cost of each and how often. Last what was used already, if anything.
local hashes, limit_of, asked = args[3], args[4], args[5]
local singles, several, refunds, slots, usual = args[6], args[7], args[8], args[9], args[10]
local overruns = args[11] or {}

for _, limit in ipairs(limits) do
  local boundaries = limit[1] == FIXED_WINDOW and limit[4]
  if boundaries and (now < boundaries[1] or now >= boundaries[4]) then
    return { 0, now }
  end
end

local HOLD, COUNT_DENIED, NEVER = 1, 2, 4
local ENFORCED, QUOTA = 0, 2
-- Where a hash says until when it is kept. The name is longer than 64 bytes, which makes the hash a table from
-- the start: as a list, which it would be up to 512 fields, it is searched from end to end for each field.
local KEPT = 'until when this is kept, and no counter, whose names are all of sixteen bytes'

-- Whoever brings a time of their own moves it as they like, and the server's goes on meanwhile: then nothing
-- may expire by the latter.
local SPARE_MS = args[1] and 3600000 or 0

-- What is answered in place of a counter that another program has written over. Nothing is charged to it, nor
-- to the other counters of the same request.
local FOREIGN = -1
-- The lengths that packed counters have, by kind.
local LENGTHS = { { [14] = true }, { [21] = true }, { [23] = true, [30] = true } }

-- The fields of a hash and when it may go; nothing if it is not a hash.
local function fetch(key, first, last)
  local found = pcall_server('HMGET', key, KEPT, unpack(ARGV, first, last))
  if not found.err then
    return found
  elseif not string.find(found.err, 'WRONGTYPE', 1, true) then
    error(found, 0)
  end
end

local function is_sound(kind, value)
  return not value or LENGTHS[kind][#value]
end

-- Drops a few small counters that count no more, so that dead ones stay a minority.
local function sweep(key, limit, count)
  local found = call('HRANDFIELD', key, count, 'WITHVALUES')
  for index = 1, #found, 2 do
    local algorithm = algorithms[limit[1]]
    if found[index] ~= KEPT and is_sound(limit[1], found[index + 1]) then
      if algorithm.expires(limit, algorithm.read(found[index + 1])) <= now then
        call('HDEL', key, found[index])
      end
    end
  end
end

-- Writes fields of a hash, and sees to it that it is kept long enough.
local function write(key, fields, expires, kept, added, limit)
  if expires > kept then
    -- A little longer than needed, so that this is not done each time.
    local keep = (expires - now) * 1.5 + 1000000
    insert(fields, KEPT)
    insert(fields, decimal(floor(now + keep)))
    call('HSET', key, unpack(fields))
    call('PEXPIRE', key, ceil(keep / 1000) + SPARE_MS)
  else
    call('HSET', key, unpack(fields))
  end
  if added > 0 then
    sweep(key, limit, 1 + 2 * added)
  end
end

-- Charges that the short way is not for: the same, step by step.
local function at_length(limit, value, cost, times)
  local algorithm = algorithms[limit[1]]
  local state = algorithm.read(value)
  local changed = false
  for _ = 1, times do
    if algorithm.fits(limit, state, cost, now, false) then
      algorithm.take(limit, state, cost, now)
      changed = true
    else
      changed = value and algorithm.carry_on and algorithm.carry_on(limit, state, now) or changed
      break
    end
  end
  if changed then
    return algorithm.pack(state), algorithm.expires(limit, state)
  end
end

if usual then
  local answer, counter, field = { now }, 0, 2
  for hash = 1, #hashes do
    local count = hashes[hash]
    local found = fetch(KEYS[hash], field, field + count - 1)
    local fields, length, latest, added, limit = {}, 0, 0, 0, nil
    for index = 2, count + 1 do
      counter = counter + 1
      limit = limits[limit_of[counter]]
      local value, cost, times = found and found[index], usual[2 * counter - 1], usual[2 * counter]
      local new, expires
      if found and is_sound(limit[1], value) then
        answer[counter + 1] = value
        new, expires = algorithms[limit[1]].quick(limit, value, cost, times, now)
        if new == true then
          new, expires = at_length(limit, value, cost, times)
        end
      else
        answer[counter + 1] = FOREIGN
      end
      if new then
        fields[length + 1], fields[length + 2] = ARGV[field + index - 2], new
        length = length + 2
        latest = max(latest, expires)
        added = added + (value and 0 or 1)
      end
    end
    if length > 0 then
      write(KEYS[hash], fields, latest, tonumber(found[1]) or 0, added, limit)
    end
    field = field + count
  end
  return answer
end

local states, dirty, kept, foreign, answer = {}, {}, {}, {}, { now }
local smalls = 0

do
  local field = 2
  for hash = 1, #hashes do
    local count = hashes[hash]
    local found = fetch(KEYS[hash], field, field + count - 1)
    kept[hash] = found and tonumber(found[1]) or 0
    for index = 2, count + 1 do
      smalls = smalls + 1
      local kind = limits[limit_of[smalls]][1]
      if found and is_sound(kind, found[index]) then
        answer[smalls + 1] = found[index]
        local state = algorithms[kind].read(found[index])
        state.exists = found[index] and true
        states[smalls] = state
      else
        answer[smalls + 1], foreign[smalls] = FOREIGN, true
      end
    end
    field = field + count
  end
end

local function reread(counter)
  local limit, large = limits[limit_of[counter]], counter - smalls
  local read = algorithms[limit[1]].read
  states[counter], answer[counter + 1] = read(KEYS[#hashes + large], limit, now, asked[large])
end

-- What Lua says when a value is not what was written there.
local NOT_OURS = { 'WRONGTYPE', 'attempt to', 'index is nil', 'too short' }

for counter = smalls + 1, #limit_of do
  local read, problem = pcall(reread, counter)
  if not read then
    local text = type(problem) == 'table' and problem.err or tostring(problem)
    for _, words in ipairs(NOT_OURS) do
      if string.find(text, words, 1, true) then
        answer[counter + 1], foreign[counter] = FOREIGN, true
      end
    end
    if not foreign[counter] then
      error(problem, 0)
    end
  end
end

local function fits(counter, state, cost, mode)
  if mode >= NEVER then
    return false
  end
  local limit = limits[limit_of[counter]]
  return algorithms[limit[1]].fits(limit, state, cost, now, mode == HOLD or mode == HOLD + COUNT_DENIED)
end

local function take(counter, state, cost, lease)
  local limit = limits[limit_of[counter]]
  algorithms[limit[1]].take(limit, state, cost, now, lease)
end

local function counts_denied(mode)
  if mode >= NEVER then
    mode = mode - NEVER
  end
  return mode >= COUNT_DENIED
end

local function carry_on(counter)
  local limit, state = limits[limit_of[counter]], states[counter]
  local carry_on = algorithms[limit[1]].carry_on
  if carry_on and state.exists and carry_on(limit, state, now) then
    dirty[counter] = true
  end
end

-- What a counter holds after it was put right is what others find.
local function put_right(counter)
  local limit, state = limits[limit_of[counter]], states[counter]
  local algorithm = algorithms[limit[1]]
  if counter <= smalls then
    dirty[counter] = true
    answer[counter + 1] = algorithm.pack(state)
  else
    algorithm.write(limit, KEYS[#hashes + counter - smalls], state, now)
    reread(counter)
  end
end

-- Refunds come first: whoever asks for one and then for something else finds it done.
-- Counter, cost, when it was taken and when the limit would have been untouched again, or 0.
for index = 1, #refunds, 4 do
  local counter, taken_at, clear_at = refunds[index], refunds[index + 2], refunds[index + 3]
  local limit, state = limits[limit_of[counter]], states[counter]
  if not foreign[counter] and state.exists then
    taken_at, clear_at = taken_at > 0 and taken_at or nil, clear_at > 0 and clear_at or nil
    algorithms[limit[1]].give_back(limit, state, refunds[index + 1], now, taken_at, clear_at)
    put_right(counter)
  end
end

-- Then what was used already, whether it fits or not. Counter, cost.
for index = 1, #overruns, 2 do
  local counter = overruns[index]
  local limit, state = limits[limit_of[counter]], states[counter]
  local algorithm = algorithms[limit[1]]
  local overdraw = algorithm.overdraw or algorithm.take
  if not foreign[counter] then
    overdraw(limit, state, overruns[index + 1], now)
    state.exists = true
    put_right(counter)
  end
end

-- And slots are returned before others are taken.
-- Counter, lease, 1 for a release.
local held = {}
for index = 1, #slots, 3 do
  local counter, lease = slots[index], slots[index + 1]
  local limit, state = limits[limit_of[counter]], states[counter]
  local algorithm = algorithms[limit[1]]
  -- Only what has slots can hold one.
  local act = not foreign[counter] and algorithm[slots[index + 2] == 1 and 'release' or 'renew']
  insert(held, act and act(limit, state, lease, now) and 1 or 0)
  if act and state.exists then
    algorithm.write(limit, KEYS[#hashes + counter - smalls], state, now)
    reread(counter)
  end
end

-- Counter, cost, mode, how often.
for index = 1, #singles, 4 do
  local counter, cost, mode = singles[index], singles[index + 1], singles[index + 2]
  local state = states[counter]
  for _ = 1, singles[index + 3] do
    if cost == 0 or foreign[counter] then
      break
    elseif fits(counter, state, cost, mode) or counts_denied(mode) then
      take(counter, state, cost)
      state.exists, dirty[counter] = true, true
    else
      carry_on(counter)
      break
    end
  end
end

local function touches_foreign(charges)
  for index = 1, #charges, 5 do
    if foreign[charges[index]] then
      return true
    end
  end
end

-- Counter, cost, mode, force, lease; all of a request's charges or none.
local function settle_several(charges)
  local trial, fitted, blocked, quota = {}, {}, false, nil
  for index = 1, #charges, 5 do
    local counter, cost, mode, force = charges[index], charges[index + 1], charges[index + 2], charges[index + 3]
    local limit = limits[limit_of[counter]]
    trial[counter] = trial[counter] or algorithms[limit[1]].copy(states[counter])
    local allowed = fits(counter, trial[counter], cost, mode)
    if cost > 0 and (allowed or counts_denied(mode)) then
      take(counter, trial[counter], cost, charges[index + 4])
    end
    fitted[index] = allowed
    if force == ENFORCED then
      blocked = blocked or not allowed
    elseif force == QUOTA then
      quota = quota or allowed
    end
  end
  blocked = blocked or quota == false
  for index = 1, #charges, 5 do
    local counter, cost, mode = charges[index], charges[index + 1], charges[index + 2]
    if cost > 0 then
      if counts_denied(mode) or fitted[index] and not blocked then
        take(counter, states[counter], cost, charges[index + 4])
        states[counter].exists, dirty[counter] = true, true
      elseif not fits(counter, states[counter], cost, mode) then
        carry_on(counter)
      end
    end
  end
end

for _, charges in ipairs(several) do
  if not touches_foreign(charges) then
    settle_several(charges)
  end
end

do
  local counter, field = 0, 2
  for hash = 1, #hashes do
    local key, fields, expires, added, limit = KEYS[hash], {}, 0, 0, nil
    for _ = 1, hashes[hash] do
      counter = counter + 1
      if dirty[counter] then
        limit = limits[limit_of[counter]]
        local algorithm, state = algorithms[limit[1]], states[counter]
        expires = max(expires, algorithm.expires(limit, state))
        insert(fields, ARGV[field])
        insert(fields, algorithm.pack(state))
        added = added + (answer[counter + 1] and 0 or 1)
      end
      field = field + 1
    end
    if fields[1] then
      write(key, fields, expires, kept[hash], added, limit)
    end
  end
  for large = smalls + 1, #limit_of do
    if dirty[large] then
      local limit = limits[limit_of[large]]
      algorithms[limit[1]].write(limit, KEYS[#hashes + large - smalls], states[large], now)
    end
  end
end

for _, each in ipairs(held) do
  insert(answer, each)
end
return answer
