#!/usr/bin/env python3
"""Asks DuckDB the same queries over the same Parquet files, and compares.

    judge.py QUERIES DATA ANSWERS

QUERIES holds q01.sql and so on, DATA one folder or file of Parquet per table, ANSWERS one Parquet file
per query (q01.parquet), with rows in the order in which they came out. An answer agrees if

- it has as many rows and columns as DuckDB's; names may differ, columns are taken by position;
- its rows are DuckDB's, each as often as there, in any order;
- where the query says ORDER BY, the columns named there agree row by row.

With LIMIT, engines may choose differently among rows that tie at the cut: there the rows must be among
those that DuckDB gives without the limit, and the ordered columns decide the rest.
"""

import re
import sys
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

# Sums of floats depend on the order of adding, in either engine.
RELATIVE = 1e-9


class Answer:
    """Rows of a result as Python values, and the types of its columns."""

    def __init__(self, table):
        self.names = table.column_names
        self.types = [field.type for field in table.schema]
        columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
        self.rows = list(zip(*columns))


def plain(value):
    """One form for what engines type differently: a timestamp at midnight is a date, bytes are text."""
    if isinstance(value, datetime) and value == datetime.combine(value.date(), datetime.min.time()):
        return value.date()
    return value.decode() if isinstance(value, bytes) else value


def tolerance(left, right):
    """How far apart values of two types may be; None if they must be equal.

    DuckDB divides and averages decimals as doubles, others keep decimals and round to their scale.
    Whole numbers and decimals on both sides are exact, whatever their scales.
    """
    if not any(pa.types.is_floating(kind) for kind in (left, right)):
        return None
    scales = [kind.scale for kind in (left, right) if pa.types.is_decimal(kind) and kind.scale > 0]
    return 10.0 ** -scales[0] if scales else 0.0


def close(left, right, allowed):
    if left == right:
        return True
    if allowed is None or left is None or right is None:
        return False
    if not all(isinstance(value, (int, float, Decimal)) for value in (left, right)):
        return False
    left, right = float(left), float(right)
    if left != left and right != right:  # NaN
        return True
    return abs(left - right) <= allowed + RELATIVE * max(abs(left), abs(right))


def stray(answer, pool, allowed):
    """The first row of `answer` that has no partner of its own in `pool`; None if all have."""
    exact = [index for index, limit in enumerate(allowed) if limit is None]
    groups = defaultdict(list)
    for row in pool:
        groups[tuple(row[index] for index in exact)].append(row)
    for row in answer:
        group = groups[tuple(row[index] for index in exact)]
        partner = next((index for index, other in enumerate(group) if all(map(close, row, other, allowed))), None)
        if partner is None:
            return row
        group.pop(partner)
    return None


def sort_keys(query, names):
    """Positions of the columns that the query's own ORDER BY names: the one that no bracket follows."""
    clause = re.search(r"ORDER\s+BY\s+([^()]+?)(?:LIMIT\s+\d+)?\s*;?\s*$", query, re.IGNORECASE)
    words = [item.split()[0].lower() for item in clause[1].split(",")] if clause else []
    lower = [name.lower() for name in names]
    return [lower.index(word) for word in words]


def difference(connection, query, answer):
    """What is wrong with an answer, in words; None if nothing is."""
    expected = Answer(connection.execute(query).to_arrow_table())
    if len(answer.types) != len(expected.types):
        return f"{len(answer.types)} columns, expected {len(expected.types)}"
    if len(answer.rows) != len(expected.rows):
        return f"{len(answer.rows)} rows, expected {len(expected.rows)}"
    allowed = list(map(tolerance, answer.types, expected.types))
    keys = sort_keys(query, expected.names)
    for place, (row, wanted) in enumerate(zip(answer.rows, expected.rows)):
        for key in keys:
            if not close(row[key], wanted[key], allowed[key]):
                name = expected.names[key]
                return f"row {place} in order has {name} = {row[key]}, expected {wanted[key]}"
    unlimited = re.sub(r"LIMIT\s+\d+\s*;?\s*$", "", query, flags=re.IGNORECASE)
    pool = expected.rows if unlimited == query else Answer(connection.execute(unlimited).to_arrow_table()).rows
    row = stray(answer.rows, pool, allowed)
    return None if row is None else f"no such row in DuckDB's answer: {row}"


def register(connection, data):
    """Makes each folder or file of Parquet a view, so that DuckDB reads what the workers read."""
    for path in sorted(data.iterdir()):
        if path.is_dir() or path.suffix == ".parquet":
            files = path / "*.parquet" if path.is_dir() else path
            connection.read_parquet(str(files)).create_view(path.stem)


def main(queries, data, answers):
    connection = duckdb.connect()
    register(connection, data)
    files = sorted(queries.glob("*.sql"))
    agreed = 0
    for file in files:
        path = answers / f"{file.stem}.parquet"
        if path.is_file():
            answer = Answer(pq.read_table(path))
            wrong = difference(connection, file.read_text(), answer)
        else:
            wrong = f"no answer: {path} is missing"
        agreed += wrong is None
        print(f"{file.stem}  {wrong or f'{len(answer.rows)} rows agree'}")
    print(f"{agreed} of {len(files)} answers agree with DuckDB")
    return 0 if files and agreed == len(files) else 1


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
