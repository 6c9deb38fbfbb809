-- take: tokens out of a bucket, which is full at first and gains some all the time.
--   KEYS[1]  the bucket: milliseconds when it will be full again; it is gone when it is
--   ARGV     tokens it gains in a second; tokens it has when full; how many are wanted;
--            milliseconds now, if somebody else's clock is to be used
--   returns  {how many it gave, what is left, in fractions and so as text}
-- It does what holdfast.gates.buckets.Buckets does. Counting with INCR and EXPIRE, the published
-- way, lets twice the limit through where two windows meet.

local SLACK = 1e-6

-- Redis 6 can be set to send replicas the script instead of what it did: then TIME forbids writing.
pcall(redis.replicate_commands)

local per_ms, burst, want = tonumber(ARGV[1]) / 1000, tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end

local full_at = tonumber(redis.call('GET', KEYS[1]) or now) or now
local left = math.max(0, math.min(burst, burst - (full_at - now) * per_ms))
local granted = math.min(want, math.floor(left + SLACK))
left = left - granted

local filling_ms = (burst - left) / per_ms
redis.call('SET', KEYS[1], string.format('%.17g', now + filling_ms),
  'PX', string.format('%.0f', filling_ms + 1))
return { granted, string.format('%.17g', left) }
