# SPDX-License-Identifier: MIT
"""Recordings with traced work of a test's choice: tables trace_* (docs/tracing.md) written into a copy of a measured run."""
import sqlite3

UNCLOSED, CROSSING, INVALID, FAILED, NODE = 1, 2, 4, 8, 16
TABLES = """
create table if not exists trace_process(id integer primary key, process integer, pid integer, start integer, name text, origin text,
    rank integer);
create table if not exists trace_thread(process integer, tid integer, name text, primary key(process, tid)) without rowid;
create table if not exists trace_device(process integer, device integer, name text, primary key(process, device)) without rowid;
create table if not exists trace_name(id integer primary key, text text);
create table if not exists trace_site(id integer primary key, kind text, process integer, name integer, domain integer, tid integer,
    device integer, context integer, stream integer, grid_x integer, grid_y integer, grid_z integer, block_x integer, block_y integer,
    block_z integer, registers integer, shared_static integer, shared_dynamic integer, source text, target text, copy integer);
create table if not exists trace_range(start integer, duration integer, site integer, depth integer, flags integer,
    primary key(start, site, depth)) without rowid;
create table if not exists trace_launch(start integer, duration integer, site integer, correlation integer, flags integer,
    primary key(start, site, correlation)) without rowid;
create table if not exists trace_kernel(start integer, duration integer, site integer, correlation integer, queued integer,
    submitted integer, flags integer, primary key(start, site, correlation)) without rowid;
create table if not exists trace_copy(start integer, duration integer, site integer, correlation integer, queued integer,
    submitted integer, flags integer, bytes integer, primary key(start, site, correlation)) without rowid;
create table if not exists trace_memory(t integer, bytes integer, site integer, address integer, flags integer,
    primary key(t, site, address)) without rowid;
create table if not exists trace_stat(id integer primary key, kind text, name integer, domain integer, process integer, tid integer,
    device integer, stream integer, phase integer, source text, target text, count integer, invalid integer, total integer,
    min integer, max integer, sum_squares real, bytes integer, rows integer, histogram blob);
create table if not exists trace_busy(process integer, device integer, traced integer, busy integer, kernels integer, copies integer,
    both integer, gaps integer, longest integer, longest_at integer, first integer, last integer, late integer,
    primary key(process, device)) without rowid;
create table if not exists trace_window(id integer primary key, start integer, end integer, why text);
create table if not exists trace_lost(process integer, cause text, n integer, primary key(process, cause)) without rowid;
"""


class Traced:
    """Rows go into the recording at path as they are added; close() commits them."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(TABLES)
        self.db.execute("begin")
        self.sites, self.names = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.db.execute("commit")
        self.db.close()

    def number(self, sql, *values):
        return self.db.execute(sql, values).lastrowid

    def process(self, pid, name="python", start=0, origin="probe", rank=None):
        return self.number("insert into trace_process(pid, start, name, origin, rank) values(?,?,?,?,?)", pid, start, name, origin, rank)

    def main(self, origin="probe"):
        """The process that the run started."""
        (pid, start, name), = self.db.execute("select pid, start, name from process where is_main")
        return self.process(pid, name, start, origin)

    def thread(self, process, tid, name):
        self.db.execute("insert into trace_thread values(?,?,?)", (process, tid, name))

    def device(self, process, device, name):
        self.db.execute("insert into trace_device values(?,?,?)", (process, device, name))
        self.db.execute(f"insert into trace_busy values(?,?{',0' * 11})", (process, device))

    def name(self, text):
        if text not in self.names:
            self.names[text] = self.number("insert into trace_name(text) values(?)", text)
        return self.names[text]

    def site(self, kind, process, name, domain="", tid=None, device=None, context=None, stream=None, grid=(), block=(), registers=None,
             shared=(None, None), source="", target=""):
        key = (kind, process, self.name(name), self.name(domain), tid, device, context, stream, *(grid or (None,) * 3),
               *(block or (None,) * 3), registers, *shared, source, target)
        if key not in self.sites:
            marks = ",".join("?" * len(key))
            self.sites[key] = self.number(f"insert into trace_site values(null,{marks},0)", *key)
        return self.sites[key]

    def range(self, process, tid, name, start, end, depth=0, flags=0, domain=""):
        self.db.execute("insert into trace_range values(?,?,?,?,?)",
                        (start, end - start, self.site("range", process, name, domain, tid), depth, flags))

    def mark(self, process, tid, name, at):
        self.db.execute("insert into trace_range values(?,null,?,0,0)", (at, self.site("mark", process, name, tid=tid)))

    def launch(self, process, tid, name, start, end, correlation=0, flags=0):
        self.db.execute("insert into trace_launch values(?,?,?,?,?)",
                        (start, end - start, self.site("launch", process, name, tid=tid), correlation, flags))

    def kernel(self, process, name, start, end, correlation=0, flags=0, device=0, stream=7, context=1, **site):
        number = self.site("kernel", process, name, device=device, context=context, stream=stream, **site)
        self.db.execute("insert into trace_kernel values(?,?,?,?,?,?,?)",
                        (start, end - start, number, correlation, None, None, flags))

    def copy(self, process, source, target, size, start, end, correlation=0, name="", device=0, stream=7, context=1, flags=0):
        number = self.site("copy", process, name, device=device, context=context, stream=stream, source=source, target=target)
        self.db.execute("insert into trace_copy values(?,?,?,?,?,?,?,?)", (start, end - start, number, correlation, None, None, flags, size))

    def fill(self, process, target, size, start, end, correlation=0, device=0, stream=7, context=1):
        number = self.site("fill", process, "", device=device, context=context, stream=stream, target=target)
        self.db.execute("insert into trace_copy values(?,?,?,?,?,?,?,?)", (start, end - start, number, correlation, None, None, 0, size))

    def memory(self, process, at, size, address, device=0, target="device"):
        """A negative size is a release."""
        number = self.site("alloc" if size >= 0 else "free", process, "cuMemAlloc" if size >= 0 else "cuMemFree", device=device,
                           context=1, target=target)
        self.db.execute("insert into trace_memory values(?,?,?,?,0)", (at, size, number, address))

    def lost(self, process, cause, n):
        self.db.execute("insert into trace_lost values(?,?,?)", (process, cause, n))
