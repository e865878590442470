SELECT route FROM subscriber WHERE job_id = :job_id ORDER BY route;
