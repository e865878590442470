SELECT name FROM public_name WHERE job_id = :job_id ORDER BY name;
