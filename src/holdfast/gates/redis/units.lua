-- Units that names have reserved: what reserve_units and free_units share. It does what
-- holdfast.gates.buckets.Reservations does, and that file says what is right.
--   KEYS     three keys, in the order of the lines below; all have one hash tag
--   ARGV[1]  milliseconds now, if somebody else's clock is to be used
-- All names are in one place, because a hold is freed without saying whose it was, and may have
-- moved from one to another.

local RESERVED = KEYS[1] -- hash: of each hold, packed, {name, units}
local DUE = KEYS[2] -- sorted set: holds by their deadlines
local TOTALS = KEYS[3] -- hash: of each name its units
local LAPSE_MAX = 500

local call = redis.call

-- Redis 6 can be set to send replicas the script instead of what it did: then TIME forbids writing.
pcall(redis.replicate_commands)

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Redis writes large numbers as 1e+15 where it is left to itself.
local function digits(number)
  return string.format('%.0f', number)
end

local function reserved_by(hold)
  local packed = call('HGET', RESERVED, hold)
  if not packed then
    return nil, 0
  end
  return unpack(cmsgpack.unpack(packed))
end

local function drop(hold)
  local name, units = reserved_by(hold)
  call('ZREM', DUE, hold)
  if name then
    call('HDEL', RESERVED, hold)
    if call('HINCRBY', TOTALS, name, digits(0 - units)) <= 0 then
      call('HDEL', TOTALS, name)
    end
  end
end

-- A key that Redis evicted would leave units reserved that nobody can free. Then all is forgotten:
-- too lenient for a while, instead of too strict for ever.
local holds = call('HLEN', RESERVED)
if holds ~= call('ZCARD', DUE) or (holds > 0) ~= (call('EXISTS', TOTALS) == 1) then
  call('DEL', RESERVED, DUE, TOTALS)
end

for _, hold in ipairs(call('ZRANGEBYSCORE', DUE, '-inf', digits(now), 'LIMIT', 0, LAPSE_MAX)) do
  drop(hold)
end
