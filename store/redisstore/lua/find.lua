local r, _, bad = read(KEYS[1])
if bad then return bad end
if not r then return {'absent'} end
return answer('found', r)
