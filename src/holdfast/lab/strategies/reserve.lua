-- Reserves seats or counted stock until a deadline, all of it or nothing.
--   KEYS     owners (hash: seat to reservation), left (number), deadlines (sorted set), contents
--            (hash: reservation to what it has)
--   ARGV     reservation, milliseconds to keep it, quantity of the stock, then seats
--   returns  1, or 0 if something of it is not there
-- Every reservation has a deadline of its own: one EXPIRE on all of them, as published, renews
-- everybody's with each new one. What lapsed is given back here, by whoever comes next.

local SWEEP_MAX = 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, SWEEP_MAX)) do
  local content = cjson.decode(redis.call('HGET', KEYS[4], id))
  redis.call('INCRBY', KEYS[2], content[1])
  for nth = 2, #content do
    redis.call('HDEL', KEYS[1], content[nth])
  end
  redis.call('ZREM', KEYS[3], id)
  redis.call('HDEL', KEYS[4], id)
end

local quantity = tonumber(ARGV[3])
if quantity > 0 and tonumber(redis.call('GET', KEYS[2]) or '0') < quantity then
  return 0
end
for nth = 4, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[nth]) == 1 then
    return 0
  end
end

-- From here it must succeed.
local content = { quantity }
redis.call('DECRBY', KEYS[2], quantity)
for nth = 4, #ARGV do
  redis.call('HSET', KEYS[1], ARGV[nth], ARGV[1])
  content[#content + 1] = ARGV[nth]
end
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], cjson.encode(content))
return 1
