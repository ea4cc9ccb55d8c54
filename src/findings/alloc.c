/* SPDX-License-Identifier: MIT
 *
 * alloc-gap: memory that PyTorch's allocator has reserved and cannot use. Other allocators are not
 * judged: JAX reserves three quarters of a device at once by design.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"

enum {
	GAP_PERCENT = 20
};
static const double gap_least = 2.0 * 1073741824;

/* A device as python/hiwater/_frameworks.py names its series: torch/DEVICE/FIGURE. */
struct device {
	char name[64];
	double reserved, allocated, retries; /* largest values; negative: unknown */
};

static bool is_amount(double value)
{
	return value >= 0 && value < 1e18;
}

static double most_of(const struct job *job, const char *device, const char *figure)
{
	char name[160];

	(void) snprintf(name, sizeof(name), "torch/%s/%s", device, figure);
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);

		if (strcmp(s->name, name) == 0 && is_amount(s->max))
			return s->max;
	}
	return -1;
}

/* "gpu0" of "torch/gpu0/reserved_peak_bytes"; false for other series. */
static bool parse_device(const struct job *job, const struct series *s, struct device *ret)
{
	static const char begin[] = "torch/", end[] = "/reserved_peak_bytes";
	const size_t len = strlen(s->name), around = sizeof(begin) - 1 + sizeof(end) - 1;

	if (len <= around || len - around >= sizeof(ret->name) ||
		strncmp(s->name, begin, sizeof(begin) - 1) != 0 ||
		strcmp(s->name + len - (sizeof(end) - 1), end) != 0)
		return false;
	(void) snprintf(
		ret->name, sizeof(ret->name), "%.*s", (int) (len - around), s->name + sizeof(begin) - 1);
	ret->reserved = is_amount(s->max) ? s->max : -1;
	ret->allocated = most_of(job, ret->name, "allocated_peak_bytes");
	ret->retries = most_of(job, ret->name, "alloc_retries");
	return true;
}

static double gap_of(const struct device *d)
{
	return d->reserved >= 0 && d->allocated >= 0 && d->reserved > d->allocated
		       ? d->reserved - d->allocated
		       : 0;
}

/* *ret: the device with the most retries, else with the largest gap. Returns the number of
 * devices. */
static int worst(const struct job *job, struct device *ret)
{
	int n = 0;

	for (size_t i = 0; i < job_series_count(job); i++) {
		struct device d;

		if (!parse_device(job, job_series(job, i), &d))
			continue;
		if (n++ == 0 || d.retries > ret->retries ||
			(d.retries >= ret->retries && gap_of(&d) > gap_of(ret)))
			*ret = d;
	}
	return n;
}

static void write_amounts(const struct device *d, struct buf *text)
{
	char reserved[UNITS_LEN], allocated[UNITS_LEN];

	buf_printf(text, "PyTorch reserved up to %s of %s and allocated up to %s of it",
		units_bytes((int64_t) d->reserved, UNITS_IEC, reserved), d->name,
		units_bytes((int64_t) d->allocated, UNITS_IEC, allocated));
}

bool rule_alloc_gap(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	struct device d;
	const bool any = worst(k->s->job, &d) > 0 && d.reserved >= 0 && d.allocated >= 0;
	const double gap = any ? gap_of(&d) : 0;
	const bool wide = gap > gap_least && gap * 100 > d.reserved * GAP_PERCENT,
		   retried = any && d.retries > 0;
	char bytes[UNITS_LEN];

	if (!any) {
		buf_str(text, "PyTorch's allocator reported nothing (series torch/gpu0/reserved_peak_bytes)");
		return false;
	}
	if (!wide && !retried) {
		write_amounts(&d, text);
		buf_printf(text, "; fires above a gap of %d %% and 2 GiB, or on a retry", GAP_PERCENT);
		return false;
	}
	finding_text(f, "device", d.name);
	finding_evidence(f, "reserved_bytes", d.reserved);
	finding_evidence(f, "allocated_bytes", d.allocated);
	if (d.retries >= 0)
		finding_evidence(f, "alloc_retries", d.retries);
	write_amounts(&d, text);
	if (retried) {
		f->severity = SEVERITY_WARN;
		buf_printf(text, "; it had to empty its cache %.0f time%s, which waits for the device",
			d.retries, d.retries > 1 ? "s" : "");
	}
	if (wide)
		buf_printf(text,
			": %s may be lost to fragmentation. Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or batches of "
			"fewer different sizes.",
			units_bytes((int64_t) gap, UNITS_IEC, bytes));
	else
		buf_str(text, ". A smaller batch may be faster.");
	return true;
}
