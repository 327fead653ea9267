#!/usr/bin/env python3
"""Writes the 22 TPC-H queries, as DuckDB ships them, to q01.sql .. q22.sql.

    queries.py OUT

They come from outside, so that nobody can bend a query until it passes.
"""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpch


def main(out):
    # The package brings the extension as a file: nothing is downloaded while the checks run.
    package = Path(duckdb_extension_tpch.__file__).parent
    files = sorted(package.rglob("*.duckdb_extension"))
    if len(files) != 1:
        sys.exit(f"expected one DuckDB extension in {package}, found {len(files)}")
    connection = duckdb.connect()
    connection.load_extension(str(files[0]))
    rows = connection.sql("SELECT query_nr, query FROM tpch_queries() ORDER BY 1").fetchall()
    if [number for number, _ in rows] != list(range(1, 23)):
        sys.exit(f"expected queries 1 to 22, found {[number for number, _ in rows]}")
    out.mkdir(parents=True, exist_ok=True)
    for number, text in rows:
        (out / f"q{number:02}.sql").write_text(text.strip() + "\n")
    print(f"{len(rows)} queries written")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
