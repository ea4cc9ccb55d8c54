/* SPDX-License-Identifier: MIT */
#include "source/process/taskstats_record.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

/* Offsets of fields of struct taskstats. New fields were always appended, except in version 15
 * (Linux 6.14), which put two after each delay; version 16 moved those to the end. */
enum {
	AT_VERSION = 0,   /* u16 */
	AT_EXITCODE = 4,   /* u32 */
	AT_FLAG = 8,   /* u8 */
	AT_RUN = 72,  /* cpu_run_virtual_total, ns; behind three delays of version 15 */
	AT_COMM = 80, /* 32 bytes; from here on shifted */
	AT_UID = 120, /* u32 */
	AT_PID = 128, /* u32 */
	AT_PPID = 132, /* u32 */
	AT_BTIME = 136, /* u32 */
	AT_UTIME = 152, /* us */
	AT_STIME = 160,
	AT_MINFLT = 168,
	AT_HIWATER = 200, /* KiB */
	AT_HIWATER_VM = 208, /* KiB */
	AT_READ_CHAR = 216,
	AT_WRITE_CHAR = 224,
	AT_READ = 248,
	AT_WRITE = 256,
	AT_CANCELLED = 264,
	NEEDED = 272, /* all versions from 8 on are longer */
	AT_TGID = 368, /* version 12 */
	FLAG_FORK = 0x01,  /* AFORK of linux/acct.h: forked without an exec since; of the first
	                    * thread */
	FLAG_GROUP = 0x20, /* AGROUP: the last thread */
};

static const struct taskstats_layout layouts[] = {
	{ .shift = 0 },
	{ .shift = 48, .tgid_shift = 96 },
};

static uint32_t u32_at(const char *stats, size_t at)
{
	uint32_t value;

	memcpy(&value, stats + at, sizeof(value));
	return value;
}

static uint64_t u64_at(const char *stats, size_t at)
{
	uint64_t value;

	memcpy(&value, stats + at, sizeof(value));
	return value;
}

static uint16_t version_of(const char *stats)
{
	uint16_t value;

	memcpy(&value, stats + AT_VERSION, sizeof(value));
	return value;
}

const char *taskstats_attribute(const char *text, size_t len, uint16_t type, size_t *ret_size)
{
	while (len >= NLA_HDRLEN) {
		struct nlattr attr;

		memcpy(&attr, text, sizeof(attr));
		if (attr.nla_len < NLA_HDRLEN || attr.nla_len > len)
			return NULL;
		if ((attr.nla_type & NLA_TYPE_MASK) == type) {
			*ret_size = attr.nla_len - (size_t) NLA_HDRLEN;
			return text + NLA_HDRLEN;
		}
		size_t step = NLA_ALIGN((size_t) attr.nla_len);

		if (step > len)
			return NULL;
		text += step;
		len -= step;
	}
	return NULL;
}

/* The struct in text, at least NEEDED bytes and the layout's shift long; NULL: none. */
static const char *stats_of(const char *text, size_t len, uint16_t shift, size_t *ret_size)
{
	size_t size;
	const char *aggr = taskstats_attribute(text, len, TASKSTATS_AGGR_PID, &size);
	const char *stats = aggr ? taskstats_attribute(aggr, size, TASKSTATS_STATS, ret_size) : NULL;

	return stats && *ret_size >= (size_t) NEEDED + shift ? stats : NULL;
}

int taskstats_layout_find(
	const char *text, size_t len, uint32_t tid, uint32_t pid, struct taskstats_layout *ret)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		struct taskstats_layout l = layouts[i];
		size_t size;
		const char *stats = stats_of(text, len, l.shift, &size);

		if (!stats || u32_at(stats, (size_t) AT_PID + l.shift) != tid)
			continue;
		l.has_tgid = version_of(stats) >= 12 && size >= (size_t) AT_TGID + l.tgid_shift + 4 &&
			     u32_at(stats, (size_t) AT_TGID + l.tgid_shift) == pid;
		/* This process has read its own libraries. */
		l.has_io = u64_at(stats, (size_t) AT_READ_CHAR + l.shift) +
				   u64_at(stats, (size_t) AT_WRITE_CHAR + l.shift) >
			   0;
		*ret = l;
		return 0;
	}
	return -EPROTO;
}

static uint64_t times(uint64_t value, uint64_t by)
{
	uint64_t product;

	return __builtin_mul_overflow(value, by, &product) ? UINT64_MAX : product;
}

int taskstats_record_parse(const char *text, size_t len, const struct taskstats_layout *layout,
	struct taskstats_record *ret)
{
	size_t size, tgid_size = 0, shift = layout->shift;
	const char *stats = stats_of(text, len, layout->shift, &size);
	const char *tgid = taskstats_attribute(text, len, TASKSTATS_AGGR_TGID, &tgid_size);

	if (!stats || (layout->has_tgid && size < (size_t) AT_TGID + layout->tgid_shift + 4))
		return -EBADMSG;
	if (tgid)
		tgid = taskstats_attribute(tgid, tgid_size, TASKSTATS_TGID, &tgid_size);
	struct taskstats_record r = {
		.pid = u32_at(stats, AT_PID + shift),
		.ppid = u32_at(stats, AT_PPID + shift),
		.uid = u32_at(stats, AT_UID + shift),
		.has_run = (stats[AT_FLAG] & FLAG_FORK) == 0,
		.is_last = tgid != NULL,
		.status = u32_at(stats, AT_EXITCODE),
		.start_wall_s = u32_at(stats, AT_BTIME + shift),
		.hwm_bytes = times(u64_at(stats, AT_HIWATER + shift), 1024),
		.vm_bytes = times(u64_at(stats, AT_HIWATER_VM + shift), 1024),
		.run_ns = u64_at(stats, AT_RUN + shift),
		.user_ns = times(u64_at(stats, AT_UTIME + shift), 1000),
		.system_ns = times(u64_at(stats, AT_STIME + shift), 1000),
		.faults_minor = u64_at(stats, AT_MINFLT + shift),
		.io = {
			.read_bytes = u64_at(stats, AT_READ + shift),
			.write_bytes = u64_at(stats, AT_WRITE + shift),
			.write_cancelled = u64_at(stats, AT_CANCELLED + shift),
			.read_chars = u64_at(stats, AT_READ_CHAR + shift),
			.write_chars = u64_at(stats, AT_WRITE_CHAR + shift),
		},
	};

	memcpy(r.name, stats + AT_COMM + shift, sizeof(r.name) - 1);
	r.tgid = r.pid;
	if (layout->has_tgid) {
		r.tgid = u32_at(stats, (size_t) AT_TGID + layout->tgid_shift);
		r.is_last |= (stats[AT_FLAG] & FLAG_GROUP) != 0;
	} else if (tgid && tgid_size >= 4) {
		r.tgid = u32_at(tgid, 0);
	}
	*ret = r;
	return 0;
}

void taskstats_io_add(struct taskstats_io *sum, const struct taskstats_io *io)
{
	sum->read_bytes += io->read_bytes;
	sum->write_bytes += io->write_bytes;
	sum->write_cancelled += io->write_cancelled;
	sum->read_chars += io->read_chars;
	sum->write_chars += io->write_chars;
}

struct io_facts taskstats_io_facts(const struct taskstats_io *io, bool is_known)
{
	if (!is_known)
		return (struct io_facts) { .read_bytes = UNKNOWN };
	return (struct io_facts) {
		.read_bytes = known_unsigned(io->read_bytes),
		.write_bytes = known_unsigned(io->write_bytes),
		.write_cancelled = known_unsigned(io->write_cancelled),
		.read_chars = known_unsigned(io->read_chars),
		.write_chars = known_unsigned(io->write_chars),
	};
}
