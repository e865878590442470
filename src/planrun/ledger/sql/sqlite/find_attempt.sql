SELECT job_id, attempt, token, nonce, incarnation, outcome, stopped FROM attempt WHERE job_id = :job_id AND attempt = :attempt;
