-- Settles what could not be charged as it is stored: finds out what has room, decides requests one by one if
-- something does not, and works out the new values.

local in_order = false
for counter = 1, smalls do
  if states[counter] or news[counter] == UNKNOWN and not rooms[counter] then
    set_up()
    news[counter], rooms[counter] = UNKNOWN, nil
    in_order = not has_room(counter) or in_order
  elseif rooms[counter] then
    in_order = true
  end
end
for large = smalls + 1, counters do
  set_up()
  in_order = not has_room(large) or in_order
end

if in_order then
  settle_in_order()
end

-- The new value of a small counter that was not charged yet, or not with what was taken of it in the end, and when
-- it expires; nil if it stays as it is.
local function work_out(counter)
  local limit, units = limits[limit_of[counter]], rooms[counter] and taken[counter] or demand[counter]
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

local counter = 0
for hash = 1, hashes do
  for _ = 1, hash_sizes[hash] do
    counter = counter + 1
    if news[counter] == UNKNOWN then
      local new, expires = work_out(counter)
      news[counter] = new
      if new and expires > latest[hash] then
        latest[hash] = expires
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
