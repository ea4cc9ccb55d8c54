/* SPDX-License-Identifier: MIT
 *
 * Energy of the CPU packages: RAPL through the powercap class of sysfs
 * (Documentation/power/powercap/powercap.rst). AMD's driver uses the same names.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/source.h"
#include "source/report_once.h"

enum {
	MAX_PACKAGES = 256
};

static const struct source_group groups[] = { { .name = "energy", .period_ns = 1000000000 } };

struct package {
	int fd;            /* energy_uj */
	bool seen;
	uint64_t last_uj;
	uint64_t range_uj; /* the counter wraps above it; 0: unknown */
};

struct source {
	struct package *packages;
	size_t n_packages, cap_packages;
	int64_t total_uj; /* over all packages, without wraps */
	struct report_once once;
};

/* A package zone is "intel-rapl:0": "intel-rapl:0:0" is a part of it (core, uncore, dram) and
 * "intel-rapl-mmio:0" the same package through another interface. */
static bool is_zone(const char *name)
{
	uint64_t number;

	return parse_word(&name, "intel-rapl:") && parse_u64(&name, &number) == 0 && *name == '\0';
}

/* Zone names are "package-0", "package-0-die-1", and "psys" for the whole platform, which includes
 * the packages. */
static bool is_package(int zone)
{
	char name[64];
	const char *p = name;

	return smallfile_read(zone, "name", name, sizeof(name)) > 0 && parse_word(&p, "package");
}

static int number_read(int fd, uint64_t *ret)
{
	char text[32];
	const char *p = text;
	uint64_t value;
	ssize_t n = smallfile_pread(fd, text, sizeof(text));

	if (n < 0)
		return (int) n;
	int r = parse_u64(&p, &value);

	if (r < 0 || (*p != '\n' && *p != '\0'))
		return r < 0 ? r : -EBADMSG;
	*ret = value;
	return 0;
}

/* Returns 0 (also if the zone is not a package) or -errno. */
static int add_zone(struct source *s, int class_dir, const char *name)
{
	autoclose int zone = openat(class_dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct package package = { 0 };

	if (zone < 0 || !is_package(zone))
		return 0;
	int r = vec_reserve(&s->packages, &s->cap_packages, s->n_packages, sizeof(package), MAX_PACKAGES);

	if (r < 0)
		return r;
	autoclose int range = smallfile_open(zone, "max_energy_range_uj");

	if (range < 0 || number_read(range, &package.range_uj) < 0)
		package.range_uj = 0;
	package.fd = smallfile_open(zone, "energy_uj");
	if (package.fd < 0)
		return package.fd;
	s->packages[s->n_packages++] = package;
	return 0;
}

/* Returns 0 if there is a package and all can be read. */
static int add_zones(struct source *s, const struct root *root)
{
	autoclose int fd = openat(root->sys, "class/powercap", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir)
		return -errno;
	int class_dir = take_fd(fd); /* dir owns it now */

	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		int r = is_zone(entry->d_name) ? add_zone(s, class_dir, entry->d_name) : 0;

		if (r < 0)
			return r;
	}
	return s->n_packages ? 0 : -ENOENT;
}

static void energy_close(struct source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_packages; i++)
		(void) close(s->packages[i].fd);
	free(s->packages);
	free(s);
}

/* The reason and the remedy, from the error of opening or of the first read. */
static void explain(int error, const char **ret_why_not, const char **ret_remedy)
{
	if (error == -ENOENT || error == -ENOTDIR || error == -EBADF) { /* EBADF: no sysfs at all */
		*ret_why_not = "no RAPL: a virtual machine, or no powercap driver";
		*ret_remedy = "sudo modprobe intel_rapl_msr, on bare metal";
	} else if (error == -EACCES || error == -EPERM) {
		*ret_why_not = "energy_uj is readable by root only since Linux 5.10";
		*ret_remedy = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";
	} else {
		*ret_why_not = "RAPL is present but cannot be read";
		*ret_remedy = "";
	}
}

static int energy_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));
	const char *why_not, *remedy;

	if (!s)
		return err_set(err, -ENOMEM, "energy: out of memory");
	int r = add_zones(s, env->root);

	if (r < 0) {
		energy_close(s);
		explain(r, &why_not, &remedy);
		return err_set(err, r, "energy: %s%s%s", why_not, *remedy ? ": " : "", remedy);
	}
	*ret = s;
	return 0;
}

/* The counter's rise. It wraps at its range, in minutes to hours; a fall without a known range is a
 * reset. */
static uint64_t risen(const struct package *p, uint64_t now)
{
	if (!p->seen || now >= p->last_uj)
		return p->seen ? now - p->last_uj : now;
	if (p->range_uj < p->last_uj)
		return 0;
	return p->range_uj - p->last_uj + now;
}

/* Adds the energy of all packages since the last read; adds nothing if one of them cannot be read. */
static int advance(struct source *s)
{
	int64_t total = s->total_uj;
	uint64_t now = 0;

	for (size_t i = 0; i < s->n_packages; i++) {
		int r = number_read(s->packages[i].fd, &now);

		if (r < 0)
			return r;
		if (__builtin_add_overflow(total, risen(&s->packages[i], now), &total))
			return -ERANGE;
		s->packages[i].seen = true;
		s->packages[i].last_uj = now;
		/* each package's share is added once, even if the next package fails */
		s->total_uj = total;
	}
	return 0;
}

static int energy_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	if (!(group_mask & 1))
		return 0;
	int r = advance(s);

	report_once(&s->once, out, M_HOST_ENERGY, r < 0 ? UNKNOWN : known(s->total_uj));
	return 0;
}

static void energy_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct source_probe probe = {
		.metric = M_HOST_ENERGY,
		.how = "sysfs powercap intel-rapl, whole packages",
		.why_not = "",
		.remedy = "",
	};
	struct source *s = NULL;
	int r = energy_open(env, &s, NULL);

	if (r == 0)
		r = advance(s);
	probe.available = r == 0;
	if (r < 0)
		explain(r, &probe.why_not, &probe.remedy);
	report(ctx, &probe);
	energy_close(s);
}

const struct source_ops source_energy = {
	.name = "energy",
	.frame = FRAME_HOST,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = energy_open,
	.read = energy_read,
	.probe = energy_probe,
	.close = energy_close,
};
