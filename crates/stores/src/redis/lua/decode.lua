-- Reading large counters. What this script has not written there raises `NOT_OURS`.
local NOT_OURS = {}

-- Runs a command that reads a key.
local function read_key(...)
  local found = redis.pcall(...)
  if type(found) == 'table' and found.err then
    -- The first word of a server's error is its type.
    error(string.sub(found.err, 1, 9) == 'WRONGTYPE' and NOT_OURS or found, 0)
  end
  return found
end

-- Unpacks a value of that many bytes.
local function decode(format, bytes, value)
  if #value ~= bytes then
    error(NOT_OURS, 0)
  end
  return unpack_bytes(format, value)
end

local function number(text)
  return tonumber(text) or error(NOT_OURS, 0)
end
