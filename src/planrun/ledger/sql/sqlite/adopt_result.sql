-- Another history of this ledger has written its answer down first: that one is the answer.
-- Fence: closing. Nobody has got ours.
UPDATE result
   SET attempt = :won_attempt, token = :won_token, status = :state, outputs = :outputs, value = :value, error = :error, adopted = 1
 WHERE job_id = :job_id AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND closing = 1);
