-- Of the finished jobs with one key another one has it from here on.
-- Fence: ended; and the index of keys, by which two never have one.
UPDATE job SET key_open = :key_open WHERE job_id = :job_id AND ended_at_ms IS NOT NULL;
