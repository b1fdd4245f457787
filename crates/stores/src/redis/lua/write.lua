-- Writes the small counters that have changed, and returns what each counter held.

local fields = {}
local counter = 0
for hash = 1, hashes do
  local length, added, last = 0, 0, latest[hash]
  for _ = 1, hash_sizes[hash] do
    counter = counter + 1
    local new = news[counter]
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
    local limit = limits[limit_of[counter]]
    local expires, found = values[limit[1]].expires, call('HRANDFIELD', key, 1 + 2 * added, 'WITHVALUES')
    for index = 1, #found, 2 do
      local value = found[index + 1]
      if found[index] ~= KEPT and #value >= 14 and expires(limit, value) <= now then
        call('HDEL', key, found[index])
      end
    end
  end
end

for index = 1, #held do
  insert(answer, held[index])
end
return answer
