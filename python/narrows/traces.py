"""Converts traces from the engine's Arrow streams to Parquet files."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = ("samples", "packets")


def convert(directory: Path) -> None:
    """Convert every `<name>.arrow` in a folder to `<name>.parquet`. Memory holds one batch at a time.

    Raises:
        OSError: A file cannot be read or written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in NAMES:
        source = directory / f"{name}.arrow"
        if not source.exists():
            continue
        target = directory / f"{name}.parquet"
        with source.open("rb") as stream, pa.ipc.open_stream(stream) as reader:
            with pq.ParquetWriter(target, reader.schema, compression="zstd") as writer:
                for batch in reader:
                    if batch.num_rows:
                        writer.write_batch(batch)
            with target.open("rb") as written:
                os.fsync(written.fileno())
        source.unlink()
