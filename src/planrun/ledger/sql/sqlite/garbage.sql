SELECT a.job_id, a.attempt, a.token, (a.stopped OR a.ended_at_ms <= :silent_since_ms) AS stopped, j.namespace, j.state, j.checkpoint, r.token AS winner, r.outputs
  FROM attempt AS a
  JOIN job AS j ON j.job_id = a.job_id
  LEFT JOIN result AS r ON r.job_id = a.job_id AND j.result_gone_at_ms IS NULL
 WHERE a.collected = 0 AND a.outcome IS NOT NULL AND a.ended_at_ms <= :before_ms
   AND (j.token IS NULL OR j.token <> a.token)
 ORDER BY a.ended_at_ms
 LIMIT :limit;
