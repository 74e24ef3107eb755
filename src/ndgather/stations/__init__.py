"""Values at stations: tables of points in files, looked up in data sets in files or stores."""
