-- The answer of an ended job stands in the store: from here on it may be said.
-- Fence: exactly the attempt that was read; what is not closing stays as it is.
UPDATE job SET closing = 0 WHERE job_id = :job_id AND attempt = :attempt;
