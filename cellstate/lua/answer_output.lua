-- Answer a request for output, for the client that waits for it.
--
-- KEYS   meta answer
-- ARGV   text expire_ms
-- Reply  {"ok"}
-- Types  answer: string of one request, which expires
-- Rules  begins with SET, which a full server refuses (semantics 13)

if redis.call('EXISTS', meta_key) == 0 then return { 'ok' } end  -- there is no such cell
redis.call('SET', answer_key, text, 'PX', expire_ms)
return { 'ok' }
