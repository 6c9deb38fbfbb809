-- Takes units of counted stock, all of them or none.
--   KEYS[1]  how many are left
--   ARGV[1]  how many are wanted; negative to give them back
--   returns  1, or 0 if there are not as many
-- DECR first and INCR again when it was too much, as published, goes below zero for a moment, in
-- which a buyer for whom there is enough is turned away.

local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left < tonumber(ARGV[1]) then
  return 0
end
redis.call('DECRBY', KEYS[1], ARGV[1])
return 1
