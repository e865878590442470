SELECT j.job_id
  FROM job AS j
 WHERE j.result_gone_at_ms IS NOT NULL AND j.ended_at_ms <= :before_ms
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.job_id = j.job_id AND a.collected = 0)
   AND NOT EXISTS (SELECT 1 FROM outbox AS o
                    WHERE o.msg_id >= 'result:' || j.job_id || ':' AND o.msg_id < 'result:' || j.job_id || char(59))
 ORDER BY j.ended_at_ms
 LIMIT :limit;
