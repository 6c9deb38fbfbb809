-- mark: the authority's word, these units are his. Whoever else was noted at a seat has lost it.
--   asked    {'mark', id, buyer, seats, {{pool, quantity}...}, kind, keep_ms, version, note}
--   touches  OWNERS, SEATS, CLAIMED, UNITS, DEADLINES
--   returns  {DONE, true}
-- What the id had before is given back first, so a mark that comes twice counts once.

local function mark(op)
  local _, id, buyer, seats, pools, kind, keep_ms, fence, note = unpack(op, 1, 9)
  local record = get(OWNERS, id)
  if record then
    drop(id, record)
  end
  add(id, buyer, seats, pools, kind, keep_ms, fence, note)
  return { DONE, true }
end
