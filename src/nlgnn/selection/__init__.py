"""Selection of a model: diagnosis, controls, paired differences and the automatic choice."""
