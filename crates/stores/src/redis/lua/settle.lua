-- Going through a batch: load, correct, charge, write.

-- The field of a hash that says until when the hash is kept. The name is longer than 64 bytes, which makes the hash a
-- table from the start: as a list, which it would be up to 512 fields, it is searched from end to end for each field.
local KEPT = 'until when this is kept, and no counter, whose names are all of sixteen bytes'
-- A caller that brings its own time moves it as it likes while the server's goes on: then nothing may expire by the
-- server's.
local SPARE_MS = args[1] and 3600000 or 0
-- By hash: until when it is kept, and when the last of the values expires that are written to it.
local kept, latest = {}, {}

for hash = 1, hashes do
  local first, count = FIRST_FIELD + smalls, hash_sizes[hash]
  local found = redis.pcall('HMGET', keys[hash], KEPT, unpack(argv, first, first + count - 1))
  if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then
    error(found, 0)
  end
  kept[hash] = tonumber(found[1]) or 0
  for index = 2, count + 1 do
    smalls = smalls + 1
    answer[smalls + 1] = found[index]
    if found.err then
      answer[smalls + 1], foreign[smalls] = FOREIGN, true
    end
  end
end

if args[7] or args[8] or args[9] then
  set_up()
  correct()
end

local in_order, unknown, counter = false, false, 0
for hash = 1, hashes do
  local last, charge_value = 0, values[limits[limit_of[counter + 1]][1]].charge
  for _ = 1, hash_sizes[hash] do
    counter = counter + 1
    local value, units = answer[counter + 1], demand[counter]
    local new, expires
    if value ~= FOREIGN and not states[counter] then
      new, expires = charge_value(limits[limit_of[counter]], value, units, now)
    end
    if not new then
      new, unknown = UNKNOWN, true
      if expires then
        rooms[counter], taken[counter], in_order = expires, 0, true
      else
        set_up()
        in_order = not has_room(counter) or in_order
      end
    elseif units == 0 then
      new = false
    elseif expires > last then
      last = expires
    end
    news[counter] = new
  end
  latest[hash] = last
end
for large = smalls + 1, counters do
  set_up()
  in_order = not has_room(large) or in_order
end

if in_order then
  settle_in_order()
end

-- The new value of a small counter that was not charged yet, or not with what was taken of it in the end.
local function work_out(limit, units)
  local new, expires
  if not states[counter] and not foreign[counter] and units > 0 then
    new, expires = values[limit[1]].charge(limit, answer[counter + 1], units, now)
    if not new then
      set_up()
      open(counter)
    end
  end
  if states[counter] and charge(counter, units) then
    new = limit.algorithm.pack(states[counter])
    expires = values[limit[1]].expires(limit, new)
  end
  return new, expires
end

local fields = {}
counter = 0
for hash = 1, hashes do
  local length, added, last, limit = 0, 0, latest[hash], nil
  for _ = 1, hash_sizes[hash] do
    counter = counter + 1
    local new = news[counter]
    if new == UNKNOWN then
      local expires
      limit = limits[limit_of[counter]]
      new, expires = work_out(limit, rooms[counter] and taken[counter] or demand[counter])
      if new and expires > last then
        last = expires
      end
    end
    if new then
      fields[length + 1], fields[length + 2] = argv[FIRST_FIELD - 1 + counter], new
      length = length + 2
      if not answer[counter + 1] then
        added = added + 1
      end
    end
  end
  local key = keys[hash]
  if length > 0 then
    local extend = last > kept[hash]
    if extend then
      -- A little longer than needed, so that this is not done each time.
      last = floor((last - now) * 1.5) + 1000000
      fields[length + 1], fields[length + 2] = KEPT, decimal(now + last)
      length = length + 2
    end
    call('HSET', key, unpack(fields, 1, length))
    if extend then
      call('PEXPIRE', key, ceil(last / 1000) + SPARE_MS)
    end
  end
  if added > 0 then
    -- Drops a few small counters that count no more, so that dead ones stay a minority.
    limit = limits[limit_of[counter]]
    local expires, found = values[limit[1]].expires, call('HRANDFIELD', key, 1 + 2 * added, 'WITHVALUES')
    for index = 1, #found, 2 do
      local value = found[index + 1]
      if found[index] ~= KEPT and #value >= 14 and expires(limit, value) <= now then
        call('HDEL', key, found[index])
      end
    end
  end
end

for large = smalls + 1, counters do
  if states[large] and charge(large, rooms[large] and taken[large] or demand[large]) then
    local limit = limits[limit_of[large]]
    limit.algorithm.write(limit, keys[hashes + large - smalls], states[large], now)
  end
end

for index = 1, #held do
  insert(answer, held[index])
end
return answer
