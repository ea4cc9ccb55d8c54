/* SPDX-License-Identifier: MIT
 *
 * Data moved over the fabric, from the port counters in sysfs (Documentation/ABI/stable/sysfs-class-infiniband). port_rcv_data and
 * port_xmit_data count units of 4 bytes, on all lanes; old hardware has 32 bits of them, which wrap in 1.4 s at 100 Gb/s or
 * stay at their largest value. RDMA does not appear in net/dev. An interface hsnN of Slingshot has its bytes in statistics/.
 *
 * A source of its own: it opens only where there is such a port, and costs nothing elsewhere.
 */
#include "source/host/fabric.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/report_once.h"
#include "source/source.h"

enum {
	PORTS_MOST = 64,
	ERROR_COUNTERS = 6
};

static const struct source_group groups[] = { { .name = "fabric", .period_ns = 1000000000 } };

/* A counter, without its wraps. */
struct counter {
	int fd;              /* -1: not there */
	bool seen, is_stuck; /* is_stuck: at the largest value of 32 bits, where some hardware stops */
	uint64_t last, total;
};

struct port {
	char name[64];
	uint64_t unit;       /* bytes in one unit of the data counters */
	uint64_t bits;       /* link rate, per second; 0: unknown */
	struct counter in, out;
	struct counter errors[ERROR_COUNTERS];
};

struct source {
	struct port *ports;
	size_t n, cap;
	uint64_t read_ns; /* CLOCK_BOOTTIME of the last read; 0: none */
	struct report_once once;
};

/* ---- counters -------------------------------------------------------------------------------------------------------- */

static struct counter counter_open(int dir, const char *path)
{
	return (struct counter) { .fd = dir >= 0 ? smallfile_open(dir, path) : -1 };
}

/* What the counter rose by: a fall from the upper half of 32 bits is a wrap, any other a reset, after which it counts from 0. */
static uint64_t risen(const struct counter *c, uint64_t now)
{
	if (now >= c->last)
		return now - c->last;
	return c->last <= UINT32_MAX && c->last > UINT32_MAX / 2 ? now + UINT32_MAX + 1 - c->last : now;
}

/* Reads it. False: it cannot be read, or no longer counts. */
static bool counter_read(struct counter *c)
{
	char text[64];
	const char *p = text;
	uint64_t now;

	if (c->fd < 0 || smallfile_pread(c->fd, text, sizeof(text)) <= 0 || parse_u64(&p, &now) < 0)
		return false;
	c->is_stuck = c->seen && now == UINT32_MAX && c->last == UINT32_MAX;
	c->total += c->seen ? risen(c, now) : 0;
	c->last = now;
	c->seen = true;
	return !c->is_stuck;
}

static void counter_close(struct counter *c)
{
	if (c->fd >= 0)
		(void) close(c->fd);
}

/* ---- ports ----------------------------------------------------------------------------------------------------------- */

static int add_port(struct source *s, const struct port *port)
{
	int r = vec_reserve(&s->ports, &s->cap, s->n, sizeof(*port), PORTS_MOST);

	if (r == 0)
		s->ports[s->n++] = *port;
	return r;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)": bits per second; 0: unknown. */
static uint64_t rate_of(const char *text)
{
	uint64_t millionths;

	if (parse_ppm(&text, &millionths) < 0 || strncmp(text, " Gb/sec", 7) != 0)
		return 0;
	return millionths * 1000;
}

static bool reads(int dir, const char *path, char *text, size_t size)
{
	return smallfile_read(dir, path, text, size) > 0;
}

/* A port's folder in ports/. An inactive port is no error. */
static int add_infiniband(struct source *s, const char *device, int ports, const char *number)
{
	static const char *const errors[ERROR_COUNTERS] = { "counters/port_rcv_errors",
		"counters/symbol_error", "counters/link_downed", "counters/port_xmit_discards",
		"counters/local_link_integrity_errors", "counters/excessive_buffer_overrun_errors" };
	autoclose int dir = openat(ports, number, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct port port = { .unit = 4 };
	char text[128];

	if (dir < 0 || !reads(dir, "state", text, sizeof(text)) || !strstr(text, "ACTIVE"))
		return 0;
	(void) snprintf(port.name, sizeof(port.name), "%.40s/%.10s", device, number);
	port.bits = reads(dir, "rate", text, sizeof(text)) ? rate_of(text) : 0;
	port.in = counter_open(dir, "counters/port_rcv_data");
	port.out = counter_open(dir, "counters/port_xmit_data");
	for (size_t i = 0; i < ERROR_COUNTERS; i++)
		port.errors[i] = counter_open(dir, errors[i]);
	return add_port(s, &port);
}

/* An interface of Slingshot; speed is in Mb/s, -1 if it is down. */
static int add_slingshot(struct source *s, const char *name, int net)
{
	static const char *const errors[] = { "statistics/rx_errors", "statistics/tx_errors" };
	autoclose int dir = openat(net, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct port port = { .unit = 1 };
	const char *p;
	char text[128];
	uint64_t mbits;

	if (dir < 0 || !reads(dir, "operstate", text, sizeof(text)) || strncmp(text, "up", 2) != 0)
		return 0;
	(void) snprintf(port.name, sizeof(port.name), "%.40s", name);
	p = text;
	if (reads(dir, "speed", text, sizeof(text)) && parse_u64(&p, &mbits) == 0 && mbits < 1000000000)
		port.bits = mbits * 1000000;
	port.in = counter_open(dir, "statistics/rx_bytes");
	port.out = counter_open(dir, "statistics/tx_bytes");
	for (size_t i = 0; i < ERROR_COUNTERS; i++)
		port.errors[i] = i < sizeof(errors) / sizeof(errors[0]) ? counter_open(dir, errors[i])
									: (struct counter) { .fd = -1 };
	return add_port(s, &port);
}

static DIR *open_dir(int at, const char *path)
{
	const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !dir)
		(void) close(fd);
	return dir;
}

static int add_device(struct source *s, int class_dir, const char *device)
{
	char path[300];
	int r = 0;

	(void) snprintf(path, sizeof(path), "%.255s/ports", device);
	autoclosedir DIR *ports = open_dir(class_dir, path);

	for (const struct dirent *d; r == 0 && ports && (d = readdir(ports));) {
		if (d->d_name[0] != '.')
			r = add_infiniband(s, device, dirfd(ports), d->d_name);
	}
	return r;
}

static bool is_slingshot(const char *name)
{
	uint64_t number;

	return parse_word(&name, "hsn") && parse_u64(&name, &number) == 0 && *name == '\0';
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct port *) a)->name, ((const struct port *) b)->name);
}

/* Returns 0, -ENOENT without an active port, or -errno. */
static int add_ports(struct source *s, const struct root *root)
{
	autoclosedir DIR *infiniband = open_dir(root->sys, "class/infiniband");
	autoclosedir DIR *net = open_dir(root->sys, "class/net");
	int r = 0;

	for (const struct dirent *d; r == 0 && infiniband && (d = readdir(infiniband));) {
		if (d->d_name[0] != '.')
			r = add_device(s, dirfd(infiniband), d->d_name);
	}
	for (const struct dirent *d; r == 0 && net && (d = readdir(net));) {
		if (is_slingshot(d->d_name))
			r = add_slingshot(s, d->d_name, dirfd(net));
	}
	if (s->n > 0)
		qsort(s->ports, s->n, sizeof(s->ports[0]), by_name);
	return r < 0 && r != -EFBIG ? r : s->n > 0 ? 0
						   : -ENOENT;
}

static void fabric_close(struct source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		struct port *p = &s->ports[i];

		counter_close(&p->in);
		counter_close(&p->out);
		for (size_t k = 0; k < ERROR_COUNTERS; k++)
			counter_close(&p->errors[k]);
	}
	free(s->ports);
	free(s);
}

void fabric_links(const struct root *root, struct maybe *ret_bits, char *ret_names, size_t size)
{
	struct source *s = calloc(1, sizeof(*s));
	const size_t n = s && add_ports(s, root) == 0 ? s->n : 0;
	struct buf names = BUF_INIT(size);
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++) {
		const struct port *p = &s->ports[i];

		bits += p->bits;
		(void) buf_printf(&names, "%s%s %llu Gb/s", i ? ", " : "", p->name,
			(unsigned long long) (p->bits / 1000000000));
	}
	*ret_bits = bits > 0 ? known_unsigned(bits) : UNKNOWN;
	(void) snprintf(ret_names, size, "%s", names.data);
	buf_done(&names);
	fabric_close(s);
}

/* ---- the source ------------------------------------------------------------------------------------------------------ */

static int fabric_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "fabric: out of memory");
	int r = add_ports(s, env->root);

	if (r < 0) {
		fabric_close(s);
		return err_set(err, r, "fabric: no active port");
	}
	*ret = s;
	return 0;
}

/* The share of the link rate that the port moved in the busier direction since before. */
static double share_of(const struct port *p, uint64_t in, uint64_t out, uint64_t ns)
{
	const uint64_t most = in > out ? in : out;

	return p->bits > 0 && ns > 0 ? (double) (most * p->unit) * 8 * 1e9 / ((double) p->bits * (double) ns)
				     : -1;
}

static void fabric_report(struct source *s, uint64_t ns, struct framebuf *out)
{
	uint64_t received = 0, sent = 0, errors = 0;
	bool has_in = true, has_out = true, has_errors = false;
	double busiest = -1;

	for (size_t i = 0; i < s->n; i++) {
		struct port *p = &s->ports[i];
		const uint64_t in = p->in.total, sent_before = p->out.total;

		has_in = counter_read(&p->in) && has_in;
		has_out = counter_read(&p->out) && has_out;
		const double share = share_of(p, p->in.total - in, p->out.total - sent_before, ns);

		busiest = share > busiest ? share : busiest;
		received += p->in.total * p->unit;
		sent += p->out.total * p->unit;
		for (size_t k = 0; k < ERROR_COUNTERS; k++) {
			has_errors = counter_read(&p->errors[k]) || has_errors;
			errors += p->errors[k].total;
		}
	}
	report_once(&s->once, out, M_HOST_FABRIC_RX, has_in ? known_unsigned(received) : UNKNOWN);
	report_once(&s->once, out, M_HOST_FABRIC_TX, has_out ? known_unsigned(sent) : UNKNOWN);
	report_once(&s->once, out, M_HOST_FABRIC_ERRORS, has_errors ? known_unsigned(errors) : UNKNOWN);
	if (busiest >= 0 && has_in && has_out) /* the first read has nothing to compare with */
		framebuf_value(
			out, M_HOST_FABRIC_BUSIEST, 0, busiest < 1 ? (int64_t) (busiest * 1e6) : 1000000);
}

static int fabric_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	const uint64_t now = clock_boot_ns();

	if (!(group_mask & 1))
		return 0;
	fabric_report(s, s->read_ns ? now - s->read_ns : 0, out);
	s->read_ns = now;
	return 0;
}

static void fabric_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	static const enum metric all[] = { M_HOST_FABRIC_RX, M_HOST_FABRIC_TX, M_HOST_FABRIC_ERRORS,
		M_HOST_FABRIC_BUSIEST };
	struct framebuf out = { 0 };
	struct source *s = NULL;
	const int r = fabric_open(env, &s, NULL);

	if (r == 0)
		fabric_report(s, 1000000000, &out);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct source_probe probe = { all[i], false,
			"sysfs infiniband and net/hsn*: counters of the active ports",
			"no active InfiniBand, RoCE or Slingshot port", "" };

		for (size_t k = 0; k < out.n_readings; k++)
			probe.available = probe.available ||
					  (out.readings[k].metric == all[i] && out.readings[k].known);
		if (r == 0 && !probe.available)
			probe.why_not = "the port's counters or its rate cannot be read";
		if (probe.available)
			probe.why_not = "";
		report(ctx, &probe);
	}
	framebuf_done(&out);
	fabric_close(s);
}

const struct source_ops source_fabric = {
	.name = "fabric",
	.frame = FRAME_HOST,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = fabric_open,
	.read = fabric_read,
	.probe = fabric_probe,
	.close = fabric_close,
};
