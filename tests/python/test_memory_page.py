# SPDX-License-Identifier: MIT
"""The examples of gpumemprof's documentation of its tracker, in order and as printed, with only the
import changed. They run one after the other in one program, as a reader would try them."""
import json

import pytest
from memory_helpers import run_with

# Names that the examples presuppose: something to train.
READER = """
logging.disable(logging.CRITICAL)
torch.randn = lambda *shape: __import__("types").SimpleNamespace(cuda=lambda: gpu.allocate(4 * shape[0] * shape[1]))

def train_model():
    blocks = [gpu.allocate(n * MIB) for n in (40, 400, 380)]
    time.sleep(0.25)
    for block in blocks: gpu.free(block)
    time.sleep(0.15)

class Loss:
    def sum(self): return self
    def backward(self): gpu.free(gpu.allocate(10 * MIB))
data = None
def model(data): return Loss()
import io
printed = io.StringIO()
sys.stdout = printed  # the examples print
"""

EXAMPLES = [
    """
from hiwater.compat.gpumemprof import MemoryTracker

# Create tracker with default settings
tracker = MemoryTracker(
    device="cuda:0",
    sampling_interval=0.1,  # Sample every 100ms
    max_events=10000        # Keep last 10k events
)

# Start background monitoring
tracker.start_tracking()

# Run your code
train_model()

# Stop monitoring
tracker.stop_tracking()
""", """
with MemoryTracker(device="cuda:0") as tracker:
    # Tracking starts automatically
    train_model()

    # Access statistics
    stats = tracker.get_statistics()
    print(f"Peak memory: {stats['peak_memory'] / 1024**2:.2f} MB")

# Tracking stops automatically
""", """
tracker = MemoryTracker(
    device="cuda:0",
    sampling_interval=0.1,              # Sample every 100ms
    max_events=10000,                   # Keep 10k events in memory
    enable_alerts=True,                 # Enable threshold alerts
    enable_oom_flight_recorder=True,    # Enable OOM diagnostics
    oom_dump_dir="oom_dumps",           # Where to save OOM dumps
    oom_buffer_size=10000,              # Events to include in dumps
    oom_max_dumps=5,                    # Keep max 5 dump bundles
    oom_max_total_mb=256                # Max 256MB total dump storage
)
""",
    # The documentation continues with a tracker that has run.
    "tracker.start_tracking(); train_model(); tracker.stop_tracking()",
    """
events = tracker.get_events()

for event in events:
    print(f"Type: {event.event_type}")
    print(f"Time: {event.timestamp}")
    print(f"Allocated: {event.memory_allocated / 1024**2:.2f} MB")
    print(f"Reserved: {event.memory_reserved / 1024**2:.2f} MB")
    print(f"Change: {event.memory_change / 1024**2:.2f} MB")
    print(f"Context: {event.context}")
""", """
# Default thresholds
tracker.thresholds = {
    'memory_warning_percent': 80.0,         # Warn at 80% usage
    'memory_critical_percent': 95.0,        # Critical at 95% usage
    'memory_leak_threshold': 100*1024*1024, # 100MB growth
    'fragmentation_threshold': 0.3,         # 30% fragmentation
}

# Change a threshold
tracker.set_threshold('memory_warning_percent', 75.0)
""", """
def on_memory_alert(event):
    if event.event_type == 'critical':
        print(f"CRITICAL: {event.context}")
        # Take action: save checkpoint, reduce batch size, etc.
        torch.cuda.empty_cache()

tracker.add_alert_callback(on_memory_alert)
""", """
stats = tracker.get_statistics()

print(f"Backend: {stats['backend']}")
print(f"Peak memory: {stats['peak_memory'] / 1024**2:.2f} MB")
print(f"Total allocations: {stats['total_allocations']}")
print(f"Total deallocations: {stats['total_deallocations']}")
print(f"Alert count: {stats['alert_count']}")
print(f"Current utilization: {stats['memory_utilization_percent']:.1f}%")

# Time-based metrics
print(f"Tracking duration: {stats['tracking_duration_seconds']:.2f}s")
print(f"Allocations/sec: {stats['allocations_per_second']:.2f}")
print(f"Bytes allocated/sec: {stats['bytes_allocated_per_second'] / 1024**2:.2f} MB/s")
""", """
# Get only allocation events
allocations = tracker.get_events(event_type='allocation')

# Get last 100 events
recent = tracker.get_events(last_n=100)

# Get events since a timestamp
import time
start_time = time.time()
# ... run code ...
recent_events = tracker.get_events(since=start_time)

# Get only alerts
alerts = tracker.get_alerts(last_n=10)
""", """
timeline = tracker.get_memory_timeline(interval=1.0)  # 1 second intervals

timestamps = timeline['timestamps']
allocated = timeline['allocated']
reserved = timeline['reserved']

# Plot with matplotlib
import matplotlib.pyplot as plt

plt.plot(timestamps, [a/1024**2 for a in allocated], label='Allocated')
plt.plot(timestamps, [r/1024**2 for r in reserved], label='Reserved')
plt.xlabel('Time (s)')
plt.ylabel('Memory (MB)')
plt.legend()
plt.show()
""", """
# Export to CSV
tracker.export_events('memory_trace.csv', format='csv')

# Export to JSON
tracker.export_events('memory_trace.json', format='json')
""", """
tracker = MemoryTracker(
    enable_oom_flight_recorder=True,
    oom_dump_dir="oom_dumps",
    oom_buffer_size=5000  # Include 5k events in dump
)

tracker.start_tracking()

try:
    # This might trigger OOM
    huge_tensor = torch.randn(100000, 100000).cuda()
except RuntimeError as e:
    # Tracker automatically detects and captures OOM
    dump_path = tracker.handle_exception(e, context="tensor_allocation")
    if dump_path:
        print(f"OOM diagnostics saved to: {dump_path}")
    raise
""", """
with tracker.capture_oom(context="training_step", metadata={"epoch": 5}):
    # Any OOM here is automatically captured
    output = model(data)
    loss = output.sum()
    loss.backward()
""", """
from hiwater.compat.gpumemprof import MemoryWatchdog

tracker = MemoryTracker(enable_alerts=True)

watchdog = MemoryWatchdog(
    tracker=tracker,
    auto_cleanup=True,
    cleanup_threshold=0.9,              # Trigger at 90% usage
    aggressive_cleanup_threshold=0.95   # Aggressive at 95%
)

tracker.start_tracking()

# Watchdog automatically calls torch.cuda.empty_cache() when needed
train_model()

# Manual cleanup if needed
watchdog.force_cleanup(aggressive=True)

# Check cleanup stats
stats = watchdog.get_cleanup_stats()
print(f"Cleanups performed: {stats['cleanup_count']}")
""", """
# CUDA/ROCm
tracker = MemoryTracker(device="cuda:0")
""", """
# Apple MPS
tracker = MemoryTracker(device="mps")
""", """
# Check detected backend
print(f"Backend: {tracker.backend}")  # 'cuda', 'rocm', or 'mps'
print(f"Capabilities: {tracker.collector_capabilities}")
"""]


def test_the_examples_of_the_page(program):
    pytest.importorskip("matplotlib")
    program.env["MPLBACKEND"] = "Agg"
    [told] = run_with(program, READER + f"""
for number, example in enumerate({EXAMPLES!r}):
    if 'device="mps"' in example:
        torch = stand_in_torch.install(mps=True)  # now it is an Apple
    try:
        exec(compile(example, f"example {{number}}", "exec"), globals())
    except torch.OutOfMemoryError:
        assert "huge_tensor" in example  # which raises it on
tell(text=printed.getvalue(), bundles=os.listdir("oom_dumps"), rows=len(list(csv.DictReader(open("memory_trace.csv")))),
     records=len(json.load(open("memory_trace.json"))), calls=torch.calls, allocations=len(allocations),
     recent=len(recent), since=len(recent_events), points=len(timestamps))
""")
    lines = told["text"].splitlines()
    assert lines[0] == "Peak memory: 820.00 MB"
    assert "Type: allocation" in lines and "Context: Memory allocated: 820.00 MB" in lines
    assert "Total allocations: 1" in lines and "Backend: cuda" in lines and "Current utilization: 82.0%" in lines
    assert any(line.startswith("OOM diagnostics saved to: oom_dumps/oom_dump_") for line in lines)
    assert "Cleanups performed: 1" in lines and lines[-2] == "Backend: mps" and "supports_device_total=True" in lines[-1]
    assert len(told["bundles"]) == 1 and told["rows"] == told["records"] == told["recent"] > 5, json.dumps(told)
    assert told["allocations"] == 1 and told["since"] == 0 and told["points"] >= 1
