"""Result tables to one self-contained HTML page: charts, tables, diagrams, no network needed."""
