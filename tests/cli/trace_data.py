# SPDX-License-Identifier: MIT
"""Perfetto traces that hiwater export made, read with Perfetto's own protobuf classes."""
import collections
import sqlite3

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def trace_of(tool, path, *args):
    out = tool.folder / "trace"
    assert tool.run("export", path, "--to", "perfetto", "-o", out, *args).returncode == 0
    trace = pb.Trace()
    trace.ParseFromString(out.read_bytes())
    assert len(trace.SerializeToString()) > len(out.read_bytes()) / 2, "it knows nearly all of it"
    return trace


class Seen:
    """Tracks, and their events in the order in which a trace processor takes them: by time, then as they come."""

    def __init__(self, trace):
        self.tracks, self.events = {}, collections.defaultdict(list)
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks or self.over(packet.track_descriptor.uuid)
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                assert packet.timestamp_clock_id == 6 and packet.track_event.track_uuid in self.tracks
                self.events[packet.track_event.track_uuid].append((packet.timestamp, packet.track_event))
        for events in self.events.values():
            events.sort(key=lambda e: e[0])

    def over(self, uuid):
        return any(e.type == pb.TrackEvent.TYPE_SLICE_END for _, e in self.events[uuid])

    def slices(self, uuid):
        """(name, begin, end or None); each end belongs to the innermost open one."""
        found, stack = [], []
        for t, e in self.events[uuid]:
            if e.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append(len(found))
                found.append([e.name, t, None])
            elif e.type == pb.TrackEvent.TYPE_SLICE_END:
                found[stack.pop()][2] = t
        return [tuple(s) for s in found]

    def named(self, name):
        return [u for u, d in self.tracks.items() if d.name == name]

    def counter(self, name, parent=None):
        uuid, = [u for u in self.named(name) if parent is None or self.tracks[u].parent_uuid == parent]
        return [(t, e.double_counter_value if e.HasField("double_counter_value") else e.counter_value) for t, e in self.events[uuid]]


def rows_of(path, sql):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        found = db.execute(sql).fetchall()
    db.close()
    return found
