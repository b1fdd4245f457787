-- What is put right before anything is charged: refunds, overruns and slots. Whoever asks for a refund or returns a
-- slot, and then asks for something else, finds it done.

-- What a counter holds after it was put right is what requests find.
local function put_right(counter, limit, state)
  if counter <= smalls then
    state.dirty = true
    answer[counter + 1] = limit.algorithm.pack(state)
  else
    limit.algorithm.write(limit, keys[hashes + counter - smalls], state, now)
    read_large(counter)
  end
end

-- Counter, cost, when it was taken and when the limit would have been untouched again, or 0.
local refunds = args[7] or {}
for index = 1, #refunds, 4 do
  local counter, taken_at, clear_at = refunds[index], refunds[index + 2], refunds[index + 3]
  local limit, state = limits[limit_of[counter]], open(counter)
  if state and state.exists then
    taken_at, clear_at = taken_at > 0 and taken_at or nil, clear_at > 0 and clear_at or nil
    limit.algorithm.give_back(limit, state, refunds[index + 1], now, taken_at, clear_at)
    put_right(counter, limit, state)
  end
end

-- Counter, cost: used already, and charged whether it fits or not.
local overruns = args[8] or {}
for index = 1, #overruns, 2 do
  local counter = overruns[index]
  local limit, state = limits[limit_of[counter]], open(counter)
  if state then
    local overdraw = limit.algorithm.overdraw or limit.algorithm.take
    overdraw(limit, state, overruns[index + 1], now)
    state.exists = true
    put_right(counter, limit, state)
  end
end

-- Counter, lease, 1 for a release or 0 for a renewal.
local slots = args[9] or {}
for index = 1, #slots, 3 do
  local counter, lease = slots[index], slots[index + 1]
  local limit, state = limits[limit_of[counter]], open(counter)
  -- Only what has slots can hold one.
  local act = state and limit.algorithm[slots[index + 2] == 1 and 'release' or 'renew']
  insert(held, act and act(limit, state, lease, now) and 1 or 0)
  if act and state.exists then
    put_right(counter, limit, state)
  end
end
