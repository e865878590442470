SELECT r.job_id, r.attempt, r.token, r.status, r.outputs, r.value, r.error,
       j.namespace, j.kind, j.version, j.state, j.key, j.reason, j.ended_at_ms, j.result_gone_at_ms, j.closing
  FROM result AS r JOIN job AS j ON j.job_id = r.job_id
 WHERE r.job_id = :job_id;
