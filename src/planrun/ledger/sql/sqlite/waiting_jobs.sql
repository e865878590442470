SELECT job_id FROM job INDEXED BY job_ready
 WHERE state = 'queued' AND not_before_ms = 0 AND created_at_ms BETWEEN :after_ms AND :before_ms
   AND kind = :kind AND version = :version AND namespace = :namespace AND needs = :needs
 LIMIT :limit;
