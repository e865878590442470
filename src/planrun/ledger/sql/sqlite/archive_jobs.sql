-- The records of these jobs are durable in the archive: from here on the ledger knows how they ended, and no more.
-- Fence: its result and all its files are gone, no message of it is left, and nothing was added since the record was read.
INSERT INTO archived(job_id, namespace, state, ended_at_ms, archived_at_ms)
SELECT j.job_id, j.namespace, j.state, j.ended_at_ms, :wall_ms
  FROM json_each(:seen) AS s JOIN job AS j ON j.job_id = s.key
 WHERE j.result_gone_at_ms IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.job_id = j.job_id AND a.collected = 0)
   AND NOT EXISTS (SELECT 1 FROM outbox AS o
                    WHERE o.msg_id >= 'result:' || j.job_id || ':' AND o.msg_id < 'result:' || j.job_id || char(59))
   AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.job_id = j.job_id AND e.id > s.value)
RETURNING job_id;
