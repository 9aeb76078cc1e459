"""Pages, tables, charts and figures, whatever they are about."""
