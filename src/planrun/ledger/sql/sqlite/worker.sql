SELECT * FROM worker WHERE incarnation = :incarnation;
