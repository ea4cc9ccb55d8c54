/* SPDX-License-Identifier: MIT */
#include "source/process/procfs_files.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

/* "6478 1523 1102 4 0 402 0" */
int procfs_statm_parse(const char *text, struct procfs_statm *ret)
{
	struct procfs_statm st;
	const char *p = text;

	if (parse_u64(&p, &st.size) < 0 || *p++ != ' ' || parse_u64(&p, &st.resident) < 0 || *p++ != ' ' ||
		parse_u64(&p, &st.shared) < 0 || *p != ' ')
		return -EBADMSG;
	*ret = st;
	return 0;
}

/* "rchar: 2012\nwchar: 0\nsyscr: 7\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n" */
int procfs_io_parse(const char *text, struct procfs_io *ret)
{
	static const char *const keys[] = { "rchar: ", "wchar: ", "syscr: ", "syscw: ", "read_bytes: ",
		"write_bytes: ", "cancelled_write_bytes: " };
	uint64_t value[7];
	const char *p = text;

	for (unsigned i = 0; i < 7; i++) {
		if (!parse_word(&p, keys[i]) || parse_u64(&p, &value[i]) < 0 || *p++ != '\n')
			return -EBADMSG;
	}
	*ret = (struct procfs_io) {
		.read_chars = value[0],
		.write_chars = value[1],
		.read_bytes = value[4],
		.write_bytes = value[5],
		.write_cancelled = value[6],
	};
	return 0;
}

/* "55d0...-7ffd... ---p 00000000 00:00 0    [rollup]\nRss:    884 kB\nPss:    385 kB\n..." */
int procfs_rollup_parse(const char *text, struct procfs_rollup *ret)
{
	struct procfs_rollup r;
	uint64_t clean, dirty;

	if (parse_key(text, "Rss", &r.rss) < 0 || parse_key(text, "Pss", &r.pss) < 0)
		return -EBADMSG;
	if (parse_key(text, "Shared_Clean", &clean) < 0 || parse_key(text, "Shared_Dirty", &dirty) < 0 ||
		__builtin_add_overflow(clean, dirty, &r.shared))
		return -EBADMSG;
	if (parse_key(text, "Private_Clean", &clean) < 0 || parse_key(text, "Private_Dirty", &dirty) < 0 ||
		__builtin_add_overflow(clean, dirty, &r.private))
		return -EBADMSG;
	r.pss_anon = parse_key(text, "Pss_Anon", &clean) < 0 ? UNKNOWN : known_unsigned(clean);
	*ret = r;
	return 0;
}

/* "fd:01 1234": */
static int device_parse(const char **p, struct procfs_map *m)
{
	uint64_t major, minor;

	if (parse_hex(p, &major) < 0 || *(*p)++ != ':' || parse_hex(p, &minor) < 0 || *(*p)++ != ' ')
		return -EBADMSG;
	if (major > UINT32_MAX || minor > UINT32_MAX || parse_u64(p, &m->inode) < 0)
		return -EBADMSG;
	m->major = (uint32_t) major;
	m->minor = (uint32_t) minor;
	return 0;
}

/* "7f0c1a000000-7f0c1a021000 rw-p 00000000 fd:01 1234                     /usr/lib/libm.so.6" */
int procfs_map_parse(const char *line, struct procfs_map *ret)
{
	struct procfs_map m;
	const char *p = line;
	uint64_t end;

	if (parse_hex(&p, &m.start) < 0 || *p++ != '-' || parse_hex(&p, &m.end) < 0 || *p++ != ' ')
		return -EBADMSG;
	if (m.start >= m.end || parse_field(&p) != 4 || *p != ' ')
		return -EBADMSG;
	m.barred = memcmp(p - 4, "---p", 4) == 0;
	p++;
	if (parse_hex(&p, &m.offset) < 0 || *p++ != ' ' || device_parse(&p, &m) < 0)
		return -EBADMSG;
	if (__builtin_add_overflow(m.offset, m.end - m.start, &end))
		return -EBADMSG;
	if (*p != '\0' && *p != '\n' && *p != ' ')
		return -EBADMSG;
	parse_blanks(&p);
	m.name = p;
	m.name_len = strcspn(p, "\n");
	*ret = m;
	return 0;
}

/* "0.20 0.18 0.12 1/80 11206": the last field; proc_loadavg(5). */
int procfs_lastpid_parse(const char *text, uint32_t *ret)
{
	const char *p = text;
	uint64_t pid;

	for (unsigned i = 0; i < 4; i++) {
		if (parse_field(&p) == 0 || *p++ != ' ')
			return -EBADMSG;
	}
	if (parse_u64(&p, &pid) < 0 || pid > INT32_MAX || *p != '\n')
		return -EBADMSG;
	*ret = (uint32_t) pid;
	return 0;
}

/* "4712 4713 " */
bool procfs_child_next(const char **p, int32_t *ret)
{
	const char *q = *p;
	uint64_t pid;

	parse_blanks(&q);
	if (parse_u64(&q, &pid) < 0 || pid == 0 || pid > INT32_MAX || (*q != ' ' && *q != '\n'))
		return false;
	*ret = (int32_t) pid;
	*p = q;
	return true;
}
