# SPDX-License-Identifier: MIT
"""PyTorch's history of its CUDA allocator, for bundles: a snapshot that pytorch.org/memory_viz
reads, and PyTorch's texts of it."""
from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any, Callable, Dict, List

from .utils import needed_torch

log = logging.getLogger(__name__)

MOST_ENTRIES = 100_000
SNAPSHOT = "cuda_allocator_snapshot.pickle"
METADATA = "cuda_native_debug_metadata.json"

# File: the function of torch.cuda._memory_viz that writes it.
TEXTS = {"cuda_allocator_segments.txt": "segsum", "cuda_allocator_trace.txt": "trace",
         "cuda_allocator_state_history.html": "trace_plot"}


def begin(device: Any, most_entries: int) -> bool:
    """Starts recording the history; returns False if PyTorch cannot."""
    try:
        needed_torch().cuda.memory._record_memory_history(max_entries=most_entries, device=device)
        return True
    except Exception as e:
        log.debug("no history of the allocator: %s", e)
        return False


def end(device: Any) -> None:
    try:
        needed_torch().cuda.memory._record_memory_history(enabled=None, device=device)
    except Exception as e:
        log.debug("recording the history of the allocator could not be ended: %s", e)


def _texts_of(snapshot: Dict[str, Any], folder: Path, warnings: List[str]) -> List[str]:
    try:
        from importlib import import_module

        viz: Any = import_module("torch.cuda._memory_viz")
    except Exception as e:
        warnings.append(f"memory_viz load: {e}")
        return []
    written = []
    for name, function in TEXTS.items():
        try:
            text: Callable[[Any], str] = getattr(viz, function)
            (folder / name).write_text(text(snapshot), encoding="utf-8")
            written.append(name)
        except Exception as e:
            warnings.append(f"{name}: {e}")
    return written


def _list_in(file: Path, where: Callable[[Dict[str, Any]], Dict[str, Any]], names: List[str]) -> None:
    payload = json.loads(file.read_text(encoding="utf-8"))
    part = where(payload)
    part["native_history_enabled"], part["native_history_files"] = True, names
    if "files" in payload:
        payload["files"] += names
    file.write_text(json.dumps(payload, indent=2), encoding="utf-8")


def add_to(bundle: str, device: Any) -> None:
    """Writes the history into the bundle and adds its files to the manifest."""
    folder, warnings = Path(bundle), list[str]()
    try:
        snapshot = needed_torch().cuda.memory._snapshot(device=device)
        (folder / SNAPSHOT).write_bytes(pickle.dumps(snapshot))
        names = [SNAPSHOT, *_texts_of(snapshot, folder, warnings), METADATA]
        (folder / METADATA).write_text(json.dumps({"history_recorded": True, "warning_count": len(warnings),
                                                   "warnings": warnings}, indent=2), encoding="utf-8")
        _list_in(folder / "manifest.json", lambda payload: payload, names)
        _list_in(folder / "metadata.json", lambda payload: payload.setdefault("custom_metadata", {}), names)
    except Exception as e:
        log.debug("the history of the allocator was not written: %s", e)
