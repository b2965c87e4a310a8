"""Turn result tables into one self-contained HTML page: charts, tables, diagrams, no network."""
