-- claim: all of the units or none.
--   asked    {'claim', id, buyer, seats, {{pool, quantity}...}, kind, keep_ms, version, note, cap?}
--   touches  reads all keys; writes OWNERS, SEATS, CLAIMED, UNITS and DEADLINES
--   returns  {UNREADY, version} | {CLAIMED_ALREADY, id, record} | {OVER_CAP, cap}
--            | {CLASH, {{seat, owner, buyer, until}...}} | {SHORT, pool, available} | {CLAIMED_NOW}
-- Looks at everything before it writes anything, in one script. DECR first and INCR again when it
-- was too much, the published mistake, goes below zero for a moment, in which a buyer for whom
-- there is enough is turned away. Stock that only dead owners have is free: they are swept, as far
-- as needed, before anybody hears that there is not enough.

local function over_cap(buyer, units, cap)
  while (get(UNITS, buyer) or 0) + units > cap do
    if not lapse() then
      return true
    end
  end
  return false
end

-- How many there are, if those are too few.
local function short_of(pool, quantity)
  local stock = get(STOCK, pool)
  if not stock then
    return nil -- a pool that the authority has not told of is not judged
  end
  while true do
    local available = math.max(0, stock - (get(CLAIMED, pool) or 0))
    if available >= quantity then
      return nil
    end
    if not lapse() then
      return available
    end
  end
end

local function claim(op)
  local _, id, buyer, seats, pools, kind, keep_ms, fence, note, cap = unpack(op, 1, 10)
  if present == 0 or (kind == 'courtesy' and present ~= asked) then
    return { UNREADY, present }
  end
  local record = alive(id)
  if record then
    return { CLAIMED_ALREADY, id, record }
  end
  if cap and over_cap(buyer, units_of(seats, pools), cap) then
    return { OVER_CAP, cap }
  end
  local clash = taken(seats)
  if #clash > 0 then
    return { CLASH, clash }
  end
  for _, pool in ipairs(pools) do
    local available = short_of(pool[1], pool[2])
    if available then
      return { SHORT, pool[1], available }
    end
  end
  -- From here the claim must succeed.
  add(id, buyer, seats, pools, kind, keep_ms, fence, note)
  return { CLAIMED_NOW }
end
