-- Final: nothing more is written there, and nothing that stays becomes garbage later, during the visit itself.
SELECT a.job_id, a.attempt, a.token, j.namespace, j.state, j.checkpoint, r.token AS winner, r.outputs,
       (a.stopped OR a.ended_at_ms <= :silent_since_ms)
       AND (j.ended_at_ms IS NOT NULL
            OR a.attempt NOT IN (SELECT value ->> '$.attempt' FROM json_each(j.checkpoint))) AS final
  FROM attempt AS a
  JOIN job AS j ON j.job_id = a.job_id
  LEFT JOIN result AS r ON r.job_id = a.job_id AND j.result_gone_at_ms IS NULL
 WHERE a.collected = 0 AND a.outcome IS NOT NULL AND a.ended_at_ms <= :before_ms
   AND (j.token IS NULL OR j.token <> a.token)
   AND j.closing = 0
   AND (a.token >> 40 = (SELECT v FROM meta WHERE k = 'generation')
        OR coalesce((SELECT v FROM meta WHERE k = 'strict'), 0) AND j.ended_at_ms IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM meta WHERE k = 'recovered_at_ms'))
   AND NOT EXISTS (SELECT 1 FROM meta WHERE k = 'recovering')
   AND (a.token NOT IN (SELECT value FROM json_each(:visited)) OR final)
 ORDER BY a.ended_at_ms
 LIMIT :limit;
