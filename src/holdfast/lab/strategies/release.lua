-- Gives a claim back, if it is still the caller's.
--   KEYS[1]  the claim
--   ARGV[1]  who made it
--   returns  1, or 0 if it was somebody else's or nobody's
-- DEL alone, as published, would delete the next owner's claim if the caller's has lapsed.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
