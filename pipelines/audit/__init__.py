"""What proves a finished dataset, or shows what is wrong with it: from its files alone."""
