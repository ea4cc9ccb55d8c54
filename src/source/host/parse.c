/* SPDX-License-Identifier: MIT */
#include "source/host/parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"
#include "source/report_once.h"

enum {
	SECTOR_BYTES = 512,
	MAX_CORES = 1 << 16
};

static struct maybe key_bytes(const char *text, const char *key)
{
	uint64_t value = 0;
	int r = parse_key(text, key, &value);

	return maybe_count(r, value, 1);
}

void meminfo_parse(const char *text, struct meminfo *ret)
{
	ret->total = key_bytes(text, "MemTotal");
	ret->available = key_bytes(text, "MemAvailable");
	ret->mapped = maybe_sum(key_bytes(text, "AnonPages"), key_bytes(text, "Mapped"));
	ret->shmem = key_bytes(text, "Shmem");
	ret->swap_total = key_bytes(text, "SwapTotal");
	ret->swap_free = key_bytes(text, "SwapFree");
}

/* "cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0": ten fields today, four in the oldest. */
bool cpu_line_next(const char **p, struct cpu_line *ret)
{
	enum {
		LEAST = 4,
		FIELDS = 8
	};
	uint64_t field[FIELDS] = { 0 }, core = 0;
	const char *at = *p;
	int n = 0;

	if (!parse_word(&at, "cpu"))
		return false;
	bool total = *at == ' ';

	if (!total && (parse_u64(&at, &core) < 0 || core >= MAX_CORES || *at != ' '))
		return false;
	parse_blanks(&at);
	while (n < FIELDS && parse_u64(&at, &field[n]) == 0) {
		n++;
		parse_blanks(&at);
	}
	if (n < LEAST || !strchr(at, '\n')) /* the last number of a truncated line may be incomplete */
		return false;
	(void) parse_line(&at);
	*p = at;
	*ret = (struct cpu_line) {
		.core = total ? -1 : (int) core,
		.user = field[0],
		.nice = field[1],
		.system = field[2],
		.idle = field[3],
		.iowait = field[4],
		.irq = field[5],
		.softirq = field[6],
		.steal = field[7],
	};
	return true;
}

static struct maybe flat_count(const char *text, const char *key)
{
	uint64_t value = 0;
	int r = parse_flat(text, key, &value);

	return maybe_count(r, value, 1);
}

/* a + b, unknown on overflow. */
static struct maybe add(struct maybe a, struct maybe b)
{
	int64_t sum;

	if (!a.known || !b.known || __builtin_add_overflow(a.value, b.value, &sum))
		return UNKNOWN;
	return known(sum);
}

void vmstat_parse(const char *text, struct vmstat *ret)
{
	ret->thp_faults = add(flat_count(text, "thp_fault_alloc"), flat_count(text, "thp_collapse_alloc"));
	ret->swap_in_pages = flat_count(text, "pswpin");
	ret->swap_out_pages = flat_count(text, "pswpout");
	ret->oom_kills = flat_count(text, "oom_kill");
}

/* Adds a pair of counters; an overflow makes both unknown. */
static void add_traffic(struct traffic *sum, uint64_t in, uint64_t out, uint64_t scale)
{
	sum->in = add(sum->in, maybe_count(0, in, scale));
	sum->out = add(sum->out, maybe_count(0, out, scale));
}

/* Parses field number n (from 1), counting from *p; *p is then behind it. */
static int nth_number(const char **p, unsigned n, uint64_t *ret)
{
	int r = -EBADMSG;

	while (n-- > 0) {
		parse_blanks(p);
		r = parse_u64(p, ret);
		if (r < 0)
			return r;
	}
	return r;
}

struct disk_line {
	const char *name;
	size_t len;
	uint64_t sectors_read, sectors_written;
};

/* " 254 0 vda 28548 7561 2107890 5891 6726 9256 647152 1365 0 3460 7305 ..." */
static int disk_line_parse(const char *p, struct disk_line *ret)
{
	uint64_t number;

	if (nth_number(&p, 2, &number) < 0 || *p++ != ' ')
		return -EBADMSG;
	ret->name = p;
	ret->len = strcspn(p, " \n");
	p += ret->len;
	if (ret->len == 0 || nth_number(&p, 3, &ret->sectors_read) < 0 ||
		nth_number(&p, 4, &ret->sectors_written) < 0)
		return -EBADMSG;
	return *p == ' ' || *p == '\n' ? 0 : -EBADMSG;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool all_digits(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(p[i]))
			return false;
	}
	return len > 0;
}

/* Whether line is a partition of disk. The kernel lists partitions right behind their disk: "sda1"
 * of "sda", "nvme0n1p1" of "nvme0n1" (a name that ends in a digit gets a p;
 * block/partitions/core.c, add_partition). */
static bool is_partition(const struct disk_line *line, const struct disk_line *disk)
{
	if (disk->len == 0 || line->len <= disk->len || memcmp(line->name, disk->name, disk->len) != 0)
		return false;
	const char *rest = line->name + disk->len;
	size_t len = line->len - disk->len;

	if (is_digit(disk->name[disk->len - 1])) {
		if (*rest != 'p')
			return false;
		rest++;
		len--;
	}
	return all_digits(rest, len);
}

/* Devices on top of other disks, or without a disk: their name, then digits. */
static bool is_stacked(const struct disk_line *line)
{
	static const char *const names[] = { "loop", "ram", "zram", "dm-", "md", "md_d", "bcache", "drbd" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		if (line->len > len && memcmp(line->name, names[i], len) == 0 &&
			is_digit(line->name[len]))
			return true;
	}
	return false;
}

void diskstats_parse(const char *text, struct traffic *ret)
{
	struct traffic sum = { known(0), known(0) };
	struct disk_line line, disk = { 0 };
	bool any = false;

	*ret = (struct traffic) { 0 };
	for (const char *p; (p = parse_next_line(&text));) {
		if (disk_line_parse(p, &line) < 0)
			return; /* a sum that lacks one of its disks would go backwards */
		if (!is_partition(&line, &disk)) {
			disk = line;
			if (!is_stacked(&line)) {
				add_traffic(&sum, line.sectors_read, line.sectors_written, SECTOR_BYTES);
				any = true;
			}
		}
	}
	if (any)
		*ret = sum;
}

/* "  eth0: 46246738    1175    0    0    0     0          0         0    85354     925 ...": received bytes are the
 * first number, sent bytes the ninth. */
static int net_line_parse(const char *p, bool *ret_is_lo, uint64_t *ret_in, uint64_t *ret_out)
{
	parse_blanks(&p);
	size_t len = strcspn(p, ": \n");

	if (len == 0 || p[len] != ':')
		return -EBADMSG;
	*ret_is_lo = len == 2 && memcmp(p, "lo", 2) == 0;
	p += len + 1;
	if (nth_number(&p, 1, ret_in) < 0 || nth_number(&p, 8, ret_out) < 0)
		return -EBADMSG;
	return *p == ' ' || *p == '\n' ? 0 : -EBADMSG;
}

void net_dev_parse(const char *text, struct traffic *ret)
{
	struct traffic sum = { known(0), known(0) };
	bool any = false;

	*ret = (struct traffic) { 0 };
	for (int heading = 0; heading < 2; heading++)
		(void) parse_next_line(&text);
	for (const char *p; (p = parse_next_line(&text));) {
		uint64_t in = 0, out = 0;
		bool is_lo = false;

		if (net_line_parse(p, &is_lo, &in, &out) < 0)
			return;
		if (!is_lo)
			add_traffic(&sum, in, out, 1);
		any = true;
	}
	if (any)
		*ret = sum;
}

/* "some avg10=0.00 avg60=0.12 avg300=0.05 total=1234567": total is in microseconds. */
static struct maybe pressure_total(const char *text, const char *kind)
{
	static const char label[] = " total=";

	for (const char *line; (line = parse_next_line(&text));) {
		if (parse_word(&line, kind) && *line == ' ') {
			const char *total = strstr(line, label);
			uint64_t us = 0;

			if (!total || total >= text)
				return UNKNOWN;
			total += sizeof(label) - 1;
			int r = parse_u64(&total, &us);

			return maybe_count(*total == '\n' ? r : -EBADMSG, us, 1000);
		}
	}
	return UNKNOWN;
}

void pressure_parse(const char *text, struct pressure *ret)
{
	ret->some_ns = pressure_total(text, "some");
	ret->full_ns = pressure_total(text, "full");
}
