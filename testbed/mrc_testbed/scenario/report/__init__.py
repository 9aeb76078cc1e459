"""Results of a run as files: report page, figures, tables, text, manifest."""
