SELECT job_id, state, content_hash
  FROM job
 WHERE namespace = :namespace AND kind = :kind AND version = :version AND key = :key AND key_open = 1;
