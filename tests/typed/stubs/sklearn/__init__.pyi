# scikit-learn has no types. These are of what the pages' examples take from it.
