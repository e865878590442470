SELECT job_id, namespace, state, ended_at_ms, archived_at_ms
  FROM archived WHERE job_id = :job_id AND (:namespace IS NULL OR namespace = :namespace);
