SELECT j.inputs, j.params, j.needs, j.content_hash, j.retry_of, j.priority, j.created_at_ms, j.request_id, j.request_hash,
       (SELECT outcome FROM attempt AS a WHERE a.job_id = j.job_id AND a.token = r.token) AS outcome
  FROM job AS j JOIN result AS r ON r.job_id = j.job_id
 WHERE j.job_id = :job_id;
