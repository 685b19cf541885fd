"""From a table to a posterior: infer, temperatures, bags, selection, more rows."""
