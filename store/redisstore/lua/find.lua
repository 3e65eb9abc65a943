local r, bad = read(KEYS[1])
if bad then return bad end
if not r then return '-' end
return answer('r', r)
