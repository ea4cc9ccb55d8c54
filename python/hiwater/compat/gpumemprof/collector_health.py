# SPDX-License-Identifier: MIT
"""Health of a collector, as the metadata of events and the statistics report it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

COLLECTOR_HEALTH_HEALTHY = "healthy"
COLLECTOR_HEALTH_DEGRADED = "degraded"
COLLECTOR_HEALTH_UNHEALTHY = "unhealthy"

RETRY_FIRST_S = 1.0
RETRY_FACTOR = 2.0
RETRY_MOST_S = 30.0


@dataclass(frozen=True)
class CollectorHealthState:
    status: str = COLLECTOR_HEALTH_HEALTHY
    telemetry_partial: bool = False
    partial_fields: Tuple[str, ...] = ()
    last_error: Optional[str] = None
    consecutive_failures: int = 0
    next_retry_epoch_s: Optional[float] = None

    @property
    def is_healthy(self) -> bool:
        return self.status == COLLECTOR_HEALTH_HEALTHY

    def to_dict(self) -> Dict[str, Any]:
        return {
            "collector_health_status": self.status,
            "telemetry_partial": self.telemetry_partial,
            "collector_partial_fields": list(self.partial_fields),
            "collector_last_error": self.last_error,
            "collector_consecutive_failures": self.consecutive_failures,
            "collector_next_retry_epoch_s": self.next_retry_epoch_s,
        }


def collector_retry_delay_seconds(consecutive_failures: int, *, initial_delay_s: float = RETRY_FIRST_S,
                                  factor: float = RETRY_FACTOR, max_delay_s: float = RETRY_MOST_S) -> float:
    """Seconds until a collector is tried again after this number of failures in a row."""
    if consecutive_failures <= 0 or initial_delay_s <= 0 or max_delay_s <= 0:
        return 0.0
    delay = initial_delay_s
    for _ in range(consecutive_failures - 1):
        if delay >= max_delay_s or factor <= 1:
            break
        delay *= factor
    return min(delay, max_delay_s)
