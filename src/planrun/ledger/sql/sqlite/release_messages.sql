-- The public files of a job stand: the messages that name them are due.
-- Fence: none of its public names is still to come, and what was tried before keeps its own time.
UPDATE outbox
   SET not_before_ms = 0
 WHERE msg_id >= 'result:' || :job_id || ':' AND msg_id < 'result:' || :job_id || char(59)
   AND tries = 0
   AND NOT EXISTS (SELECT 1 FROM outbox AS p
                    WHERE p.msg_id >= 'result:' || :job_id || ':publish:' AND p.msg_id < 'result:' || :job_id || ':publish' || char(59)
                      AND p.confirmed = 0);
