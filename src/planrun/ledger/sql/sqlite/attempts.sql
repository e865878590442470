SELECT a.job_id, a.attempt, a.token, a.incarnation, coalesce(w.name, '') AS worker, a.granted_at_ms, a.ended_at_ms, a.outcome,
       a.error, a.stopped, a.collected
  FROM attempt AS a LEFT JOIN worker AS w ON w.incarnation = a.incarnation
 WHERE a.job_id = :job_id
 ORDER BY a.attempt;
