-- A sliding window by two counters: the window before counts by the part of it that is still in sight.
-- KEYS[1]: the counters. ARGV: microseconds of a window, requests in it, requests to take.
local period, limit, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local start = now - now % period
local found = redis.call('HMGET', KEYS[1], 'start', 'current', 'previous')
local written, current, previous = tonumber(found[1]), 0, 0
if written == start then
  current, previous = tonumber(found[2]), tonumber(found[3])
elseif written == start - period then
  previous = tonumber(found[2])
end
local left = start + period - now
local used = current + math.ceil(previous * left / period)
if used + cost > limit then
  return { 0, limit - used, left }
end
redis.call('HSET', KEYS[1], 'start', start, 'current', current + cost, 'previous', previous)
redis.call('PEXPIRE', KEYS[1], math.ceil((left + period) / 1000))
return { 1, limit - used - cost, 0 }
