-- Turns a reservation into a sale.
--   KEYS     deadlines, contents (as reserve.lua has them), sales (list of {unit, quantity, buyer})
--   ARGV     reservation, buyer, name of the stock
--   returns  1, or 0 if the reservation has lapsed

if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local content = cjson.decode(redis.call('HGET', KEYS[2], ARGV[1]))
redis.call('HDEL', KEYS[2], ARGV[1])
if content[1] > 0 then
  redis.call('RPUSH', KEYS[3], cjson.encode({ ARGV[3], content[1], ARGV[2] }))
end
for nth = 2, #content do
  redis.call('RPUSH', KEYS[3], cjson.encode({ content[nth], 1, ARGV[2] }))
end
return 1
