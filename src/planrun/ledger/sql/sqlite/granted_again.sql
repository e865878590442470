SELECT namespace, kind, version, inputs, params, checkpoint, failures, losses, handbacks FROM job WHERE job_id = :job_id;
