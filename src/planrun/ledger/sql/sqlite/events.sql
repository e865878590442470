SELECT id, job_id, at_ms, what, attempt, coalesce(who, '') AS who, coalesce(detail, '') AS detail
  FROM event WHERE job_id = :job_id ORDER BY id;
