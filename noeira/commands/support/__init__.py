"""What commands share: reading their arguments and files, values of a run, and the terminal."""
