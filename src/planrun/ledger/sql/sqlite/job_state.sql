SELECT job_id, namespace, kind, version, key, state, reason, attempt, token, incarnation, checkpoint, not_before_ms,
       failures, max_attempts, losses, max_losses, handbacks, max_handbacks, lease_until_ms, deadline_at_ms, ended_at_ms, result_gone_at_ms, closing
  FROM job
 WHERE job_id = :job_id;
