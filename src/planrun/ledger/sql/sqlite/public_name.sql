SELECT job_id FROM public_name WHERE namespace = :namespace AND name = :name;
