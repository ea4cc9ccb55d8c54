/* SPDX-License-Identifier: MIT */
#include "source/drm/sysfs_values.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"

/* Drivers print all ones, in the width of their counter, for unknown values. */
static bool is_all_ones(int64_t number)
{
	return number == -1 || number == UINT16_MAX || number == UINT32_MAX;
}

static bool is_widest_all_ones(const char *p)
{
	uint64_t value;

	return parse_u64(&p, &value) == 0 && value == UINT64_MAX;
}

static int number_parse(const char *p, int64_t *ret)
{
	int64_t value;

	parse_blanks(&p);
	if (is_widest_all_ones(p))
		return -ENODATA;
	int r = parse_i64(&p, &value);

	if (r < 0 || (*p != '\n' && *p != '\0'))
		return r < 0 ? r : -EBADMSG;
	*ret = value;
	return 0;
}

int drm_number_pread(int fd, int64_t *ret)
{
	char text[32];
	ssize_t n = smallfile_pread(fd, text, sizeof(text));

	return n < 0 ? (int) n : number_parse(text, ret);
}

int drm_number_read(int dir, const char *file, int64_t *ret)
{
	autoclose int fd = smallfile_open(dir, file);

	return fd < 0 ? fd : drm_number_pread(fd, ret);
}

static int place_of(const struct drm_card *card, enum drm_place place)
{
	const int places[] = {
		[AT_DEVICE] = card->dir, [AT_CLASS] = card->class_dir, [AT_HWMON] = card->hwmon
	};

	return places[place];
}

void drm_files_open(struct drm_files *f, const struct drm_card *card, const struct drm_figure *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int dir = place_of(card, rows[i].place);

		f->fds[i] = dir < 0 ? -1 : smallfile_open(dir, rows[i].file);
		if (f->fds[i] < 0)
			f->fds[i] = -1;
	}
}

void drm_files_close(struct drm_files *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (f->fds[i] >= 0)
			(void) close(f->fds[i]);
		f->fds[i] = -1;
	}
}

/* Scales a number as the row requires. */
static struct maybe scaled(const struct drm_figure *row, int64_t number)
{
	int64_t value;

	if (__builtin_mul_overflow(number, row->mul, &value))
		return UNKNOWN;
	value /= row->div;
	return value >= row->min && value <= row->max ? known(value) : UNKNOWN;
}

struct maybe drm_files_read(const struct drm_files *f, const struct drm_figure *rows, size_t n,
	enum metric metric, int *ret_error)
{
	struct maybe value = UNKNOWN;
	int error = -ENOENT;

	for (size_t i = 0; i < n && !value.known; i++) {
		int64_t number = 0;

		if (rows[i].metric != metric || f->fds[i] < 0)
			continue;
		error = drm_number_pread(f->fds[i], &number);
		if (error == 0)
			value = scaled(&rows[i], number);
		if (error == 0 && !value.known)
			error = is_all_ones(number) ? -ENODATA : -ERANGE;
	}
	if (ret_error)
		*ret_error = value.known ? 0 : error;
	return value;
}

void drm_report(
	struct drm_files *f, struct framebuf *out, enum metric metric, uint32_t id, struct maybe value)
{
	if (value.known)
		framebuf_value(out, metric, id, value.value);
	else if (!f->unknown[metric])
		framebuf_unknown(out, metric, id);
	f->unknown[metric] = !value.known;
	f->known[metric] = value.known;
}

struct maybe drm_counter_apply(struct drm_counter *c, struct maybe now)
{
	if (!now.known)
		return UNKNOWN;
	int64_t rise = now.value;

	if (c->seen)
		rise = now.value >= c->last ? now.value - c->last
		       : c->range > c->last ? c->range - c->last + now.value
					    : 0;

	if (rise < 0 || __builtin_add_overflow(c->total, rise, &c->total))
		return UNKNOWN;
	c->seen = true;
	c->last = now.value;
	return known(c->total);
}
