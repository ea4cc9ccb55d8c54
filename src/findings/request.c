/* SPDX-License-Identifier: MIT
 *
 * Rules about requests, with #SBATCH lines for the next run. One run is weak evidence, so the
 * largest of all runs of the same name or command decides, and is named.
 */
#include "base/units.h"
#include "findings/advice.h"

/* " max of 3 runs, run 17" */
static void of_runs(const struct known_of_run *k, const struct advice *a, bool peak, struct buf *text)
{
	if (a->runs > 1)
		buf_printf(text, ", max of %zu runs", a->runs);
	else
		buf_str(text, ", one run");
	if (peak && a->peak_is_earlier && k->earlier->peak_run[0])
		buf_printf(text, ": run %.63s", k->earlier->peak_run);
}

static void cpus_evidence(const struct known_of_run *k, const struct advice *a, struct finding *f)
{
	if (!a->cpus.known)
		return;
	finding_evidence(
		f, "cores_used", (double) maybe_max(k->s->cores_mean_ppm, k->earlier->cores_ppm).value / 1e6);
	finding_evidence(f, "cores_requested", (double) k->s->facts->request_cpus.value);
}

static void about_cpus(const struct advice *a, struct buf *text)
{
	if (a->cpus.known)
		buf_str(text, " Fewer CPUs may be enough, too, if no part of the job needs them all.");
}

static void memory_evidence(const struct known_of_run *k, const struct advice *a, struct finding *f)
{
	const struct maybe requested = k->s->facts->request_bytes;

	finding_evidence(f, "peak_bytes", (double) a->peak_bytes.value);
	finding_evidence(f, "advice_bytes", (double) a->mem_bytes.value);
	finding_evidence(f, "runs", (double) a->runs);
	if (requested.known)
		finding_evidence(f, "request_bytes", (double) requested.value);
	cpus_evidence(k, a, f);
}

bool rule_memory_request(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct maybe requested = k->s->facts->request_bytes;
	char peak[UNITS_LEN];
	struct advice a;

	advice_make(k, &a);
	if (!a.mem_bytes.known) {
		buf_str(text, a.mem_why_not);
		return false;
	}
	memory_evidence(k, &a, f);
	buf_str(text, "Request ");
	advice_put_amount(a.mem_bytes.value, text);
	if (requested.known) {
		buf_str(text, ", not ");
		advice_put_amount(requested.value, text);
	}
	buf_printf(text, " (peak %s%s + 20 %%", a.peak_is_bound ? "at most " : "",
		units_bytes(a.peak_bytes.value, UNITS_IEC, peak));
	of_runs(k, &a, true, text);
	buf_str(text, ").");
	about_cpus(&a, text);
	buf_str(text, "\n#SBATCH");
	advice_put_mem(a.mem_bytes.value, text);
	if (a.cpus.known)
		advice_put_cpus(a.cpus.value, text);
	return true;
}

static void time_evidence(const struct known_of_run *k, const struct advice *a, struct finding *f)
{
	finding_evidence(f, "wall_s", (double) a->wall_ns.value / 1e9);
	finding_evidence(f, "advice_s", (double) a->time_ns.value / 1e9);
	finding_evidence(f, "request_s", (double) k->s->facts->request_time_ns.value / 1e9);
	finding_evidence(f, "runs", (double) a->runs);
	cpus_evidence(k, a, f);
}

bool rule_time_request(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	char enough[UNITS_LEN], of[UNITS_LEN], took[UNITS_LEN];
	struct advice a;

	advice_make(k, &a);
	if (!a.time_ns.known) {
		buf_str(text, a.time_why_not);
		return false;
	}
	/* Only one of the two #SBATCH lines states CPUs: that of memory-request, if it fires, which
	 * it can from five minutes on. */
	if (a.mem_bytes.known && k->s->wall_ns.value > INT64_C(300000000000))
		a.cpus = UNKNOWN;
	time_evidence(k, &a, f);
	buf_printf(text, "Request %s, not %s: it may start sooner (took %s + 25 %%, rounded up to 5 minutes",
		units_duration(a.time_ns.value, enough),
		units_duration(k->s->facts->request_time_ns.value, of),
		units_duration(a.wall_ns.value, took));
	of_runs(k, &a, false, text);
	buf_str(text, ").");
	about_cpus(&a, text);
	buf_str(text, "\n#SBATCH");
	advice_put_time(a.time_ns.value, text);
	if (a.cpus.known)
		advice_put_cpus(a.cpus.value, text);
	return true;
}
