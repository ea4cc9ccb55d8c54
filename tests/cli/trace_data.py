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
    """Tracks, and their events in the order in which a trace processor takes them: by time, then as they come. Sequence 1 has absolute
    times and names; traced work has a sequence a track, with a track and a clock of steps as defaults, and interned names."""

    def __init__(self, trace):
        self.tracks, self.events = {}, collections.defaultdict(list)
        self.sequence_of, self.interned, self.defaults, self.now = {}, {}, {}, {}
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                assert packet.trusted_packet_sequence_id == 1
                assert packet.track_descriptor.uuid not in self.tracks or self.over(packet.track_descriptor.uuid)
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.trusted_packet_sequence_id > 1:
                self.see_steps(packet)
            elif packet.HasField("track_event"):
                assert packet.timestamp_clock_id == 6 and packet.track_event.track_uuid in self.tracks
                self.add(packet.track_event.track_uuid, packet.timestamp, packet)
        for events in self.events.values():
            events.sort(key=lambda e: e[0])

    def see_steps(self, packet):
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            assert packet.trace_packet_defaults.timestamp_clock_id == 64 and sequence not in self.defaults
            self.defaults[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
            self.now[sequence], = [c.timestamp for c in packet.clock_snapshot.clocks if c.clock_id == 64 and c.is_incremental]
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                assert (sequence, kind, entry.iid) not in self.interned and entry.iid > 0
                self.interned[sequence, kind, entry.iid] = entry.name
        if packet.HasField("track_event"):
            self.now[sequence] += packet.timestamp
            track = packet.track_event.track_uuid or self.defaults[sequence]
            assert track in self.tracks and not packet.HasField("timestamp_clock_id")
            self.add(track, self.now[sequence], packet)

    def add(self, track, time, packet):
        event = packet.track_event  # kept: another call may give another object for it, with another id
        self.sequence_of[id(event)] = packet.trusted_packet_sequence_id
        self.events[track].append((time, event))

    def traced(self, event):
        return self.sequence_of[id(event)] > 1

    def name_of(self, event):
        return self.interned[self.sequence_of[id(event)], "event_names", event.name_iid] if event.name_iid else event.name

    def category_of(self, event):
        return "".join(self.interned[self.sequence_of[id(event)], "event_categories", i] for i in event.category_iids)

    def note(self, event, key):
        """A debug annotation's value; None if there is none of that name."""
        for note in event.debug_annotations:
            name = self.interned[self.sequence_of[id(event)], "debug_annotation_names", note.name_iid] if note.name_iid else note.name
            if name == key:
                return getattr(note, note.WhichOneof("value"))
        return None

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
