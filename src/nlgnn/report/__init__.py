"""Tables, figures and pages: everything that shows results."""
