SELECT route, seq FROM subscriber WHERE job_id = :job_id AND told = 0 ORDER BY route;
