SELECT digest FROM worker_proof WHERE incarnation = :incarnation;
