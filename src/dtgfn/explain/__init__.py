"""Trees in words and numbers: rules, paths of rows, importances, partial dependence, consensus."""
