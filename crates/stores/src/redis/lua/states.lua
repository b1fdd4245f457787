-- Counters as tables, for those that cannot be charged as they are stored: large ones, those that are corrected, and
-- those whose numbers are unusual.

-- The lengths that stored small counters have, by kind.
local LENGTHS = { { [14] = true }, { [21] = true }, { [23] = true, [30] = true } }

for index = 1, #limits do
  limits[index].algorithm = algorithms[limits[index][1]]
end

read_large = function(counter)
  local limit, large = limits[limit_of[counter]], counter - smalls
  states[counter], answer[counter + 1] = limit.algorithm.read(keys[hashes + large], limit, now, args[6][large])
end

-- The state of a counter; nil if another program has overwritten it.
open = function(counter)
  local limit, value = limits[limit_of[counter]], answer[counter + 1]
  if states[counter] or foreign[counter] then
    return states[counter]
  elseif counter > smalls then
    local read, problem = pcall(read_large, counter)
    if not read then
      if problem ~= NOT_OURS then
        error(problem, 0)
      end
      answer[counter + 1], foreign[counter] = FOREIGN, true
    end
  elseif not value or LENGTHS[limit[1]][#value] then
    states[counter] = limit.algorithm.read(value)
    states[counter].exists = value and true
  else
    answer[counter + 1], foreign[counter] = FOREIGN, true
  end
  return states[counter]
end

-- Finds out whether a counter has room for its demand. Returns false if requests have to be decided one by one.
has_room = function(counter)
  local limit, state = limits[limit_of[counter]], open(counter)
  if state then
    local room = limit.algorithm.room(limit, state, now)
    local one_by_one = limit.algorithm.one_by_one
    if demand[counter] <= room and not (one_by_one and one_by_one(limit)) then
      return true
    end
    rooms[counter], taken[counter] = room, 0
  end
  return false
end

-- Charges units to a counter's state, or brings it to the limit's present numbers. Returns whether it has changed.
charge = function(counter, units)
  local limit, state = limits[limit_of[counter]], states[counter]
  local algorithm = limit.algorithm
  if units > 0 and not algorithm.by_lease then
    algorithm.take(limit, state, units, now)
    return true
  elseif carried[counter] and state.exists and algorithm.carry_on and algorithm.carry_on(limit, state, now) then
    return true
  end
  return state.dirty
end
