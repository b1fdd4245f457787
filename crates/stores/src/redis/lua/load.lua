-- Loads the small counters, and charges those that have room for all that the batch asks of them.

-- The field of a hash that says until when the hash is kept. The name is longer than 64 bytes, which makes the hash a
-- table from the start: as a list, which it would be up to 512 fields, it is searched from end to end for each field.
local KEPT = 'until when this is kept, and no counter, whose names are all of sixteen bytes'
-- A caller that brings its own time moves it as it likes while the server's goes on: then nothing may expire by the
-- server's.
local SPARE_MS = args[1] and 3600000 or 0
-- By hash: until when it is kept, and when the last of the values expires that are written to it.
local kept, latest = {}, {}
-- Whether the batch needs the rest of the script: large counters, corrections, or a small counter that cannot be
-- charged as it is stored.
local at_length = args[6] or args[7] or args[8] or args[9]

for hash = 1, hashes do
  local first, count = FIRST_FIELD + smalls, hash_sizes[hash]
  local last, charge_value = 0, values[limits[limit_of[smalls + 1]][1]].charge
  local found = redis.pcall('HMGET', keys[hash], KEPT, unpack(argv, first, first + count - 1))
  -- The first word of a server's error is its type.
  if found.err and string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then
    error(found, 0)
  end
  kept[hash] = tonumber(found[1]) or 0
  for index = 2, count + 1 do
    smalls = smalls + 1
    local value, units, new, expires = found[index], demand[smalls], nil, nil
    if found.err then
      value, foreign[smalls] = FOREIGN, true
    else
      new, expires = charge_value(limits[limit_of[smalls]], value, units, now)
    end
    if not new then
      new, at_length = UNKNOWN, true
      if expires then
        rooms[smalls], taken[smalls] = expires, 0
      end
    elseif units == 0 then
      new = false
    elseif expires > last then
      last = expires
    end
    answer[smalls + 1], news[smalls] = value, new
  end
  latest[hash] = last
end
