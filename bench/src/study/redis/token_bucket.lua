-- A token bucket by GCRA: one string says when the bucket will be full again, in microseconds.
-- KEYS[1]: the bucket. ARGV: microseconds per token, tokens it holds, tokens to take.
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = tonumber(redis.call('GET', KEYS[1])) or now
if full_at < now then
  full_at = now
end
local after = full_at + interval * cost
local room = now + interval * burst - after
if room < 0 then
  return { 0, 0, -room }
end
redis.call('SET', KEYS[1], after, 'PX', math.ceil((after - now) / 1000))
return { 1, math.floor(room / interval), 0 }
