-- stock: what the authority has to give of each pool, sold or not; makes the gate ready to judge.
--   asked    {'stock', {{pool, units}...}}
--   touches  STOCK, VERSION
--   returns  {DONE, whether anything was different}
-- Claims are counted in a key of their own, so that new stock never forgets who has some of it.

local function stock(op)
  local pools = op[2]
  local all = call('HKEYS', STOCK.key)
  fetch(STOCK, all)
  -- Never an older version: it may have been raised to admit no courtesy any more.
  local newest = math.max(present, asked)
  local there, changed = 0, present ~= newest
  for _, units in pairs(STOCK.known) do
    there = there + (units and 1 or 0)
  end
  for _, pool in ipairs(pools) do
    changed = changed or get(STOCK, pool[1]) ~= pool[2]
  end
  if changed or there ~= #pools then
    for pool in pairs(STOCK.known) do
      set(STOCK, pool, false)
    end
    for _, pool in ipairs(pools) do
      set(STOCK, pool[1], pool[2])
    end
    present = newest
    return { DONE, true }
  end
  return { DONE, false }
end
