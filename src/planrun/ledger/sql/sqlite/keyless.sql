SELECT j.job_id, j.namespace, j.kind, j.version, j.key, j.ended_at_ms
  FROM result AS r JOIN job AS j ON j.job_id = r.job_id
 WHERE r.adopted = 1 AND j.state = 'finished' AND j.key IS NOT NULL AND j.key_open = 0 AND j.result_gone_at_ms IS NULL
 ORDER BY j.ended_at_ms DESC, j.id DESC;
