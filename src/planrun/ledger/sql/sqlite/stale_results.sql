SELECT j.job_id
  FROM job AS j
 WHERE j.kind = :kind AND j.version = :version AND j.ended_at_ms <= :before_ms AND j.result_gone_at_ms IS NULL AND j.closing = 0
   AND NOT EXISTS (SELECT 1 FROM outbox AS o
                    WHERE o.msg_id >= 'result:' || j.job_id || ':' AND o.msg_id < 'result:' || j.job_id || char(59)
                      AND o.confirmed = 0)
 ORDER BY j.ended_at_ms
 LIMIT :limit;
