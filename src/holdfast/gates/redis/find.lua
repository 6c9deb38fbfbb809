-- find: what an owner has.
--   asked    {'find', id}
--   touches  OWNERS, and what a dead owner had
--   returns  {FOUND, id, record} | {FOUND_NOTHING}

local function find(op)
  local record = alive(op[2])
  if not record then
    return { FOUND_NOTHING }
  end
  return { FOUND, op[2], record }
end
