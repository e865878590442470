SELECT k, v FROM meta;
