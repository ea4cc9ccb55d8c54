/* SPDX-License-Identifier: MIT */
#include "findings/advice.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "findings/client.h"

enum {
	MEM_PERCENT = 70,
	TIME_PERCENT = 60,
	CPU_PERCENT = 50,
	WHOLE_NODE_PERCENT = 90
};

static const int64_t mib = INT64_C(1) << 20, gib = INT64_C(1) << 30;
static const int64_t second_ns = 1000000000;

static int64_t round_up(int64_t value, int64_t step)
{
	return (value + step - 1) / step * step;
}

int64_t advice_memory(int64_t peak_bytes)
{
	const int64_t need = peak_bytes / 5 * 6 + peak_bytes % 5;
	const int64_t step = need < gib ? 64 * mib : need < 8 * gib ? 256 * mib
								    : gib;

	return round_up(need, step);
}

int64_t advice_time(int64_t wall_ns)
{
	return round_up(wall_ns / 4 * 5 + wall_ns % 4, 300 * second_ns);
}

void advice_put_amount(int64_t bytes, struct buf *out)
{
	char text[UNITS_LEN];

	if (bytes % gib == 0)
		buf_printf(out, "%lld GiB", (long long) (bytes / gib));
	else if (bytes % mib == 0 && bytes < 10 * gib)
		buf_printf(out, "%lld MiB", (long long) (bytes / mib));
	else
		buf_str(out, units_bytes(bytes, UNITS_IEC, text));
}

void advice_put_mem(int64_t bytes, struct buf *out)
{
	if (bytes % gib == 0)
		buf_printf(out, " --mem=%lldG", (long long) (bytes / gib));
	else
		buf_printf(out, " --mem=%lldM", (long long) (bytes / mib));
}

void advice_put_time(int64_t ns, struct buf *out)
{
	const int64_t s = ns / second_ns, days = s / 86400;

	if (days > 0)
		buf_printf(out, " --time=%lld-%02d:%02d:%02d", (long long) days, (int) (s % 86400 / 3600),
			(int) (s % 3600 / 60), (int) (s % 60));
	else
		buf_printf(
			out, " --time=%d:%02d:%02d", (int) (s / 3600), (int) (s % 3600 / 60), (int) (s % 60));
}

void advice_put_cpus(int64_t cpus, struct buf *out)
{
	buf_printf(out, " --cpus-per-task=%lld", (long long) cpus);
}

/* Memory needed: the upper bound where there is one (a request that is too small kills the job),
 * plus swap and huge pages. */
static struct maybe need_of(const struct summary *s)
{
	const struct ram_figure *all = &s->combined;
	struct maybe need = all->method == METHOD_BOUNDED ? maybe_max(all->peak, all->high) : all->peak;

	if (!need.known)
		return UNKNOWN;
	return known(need.value + (s->swap_peak.known ? s->swap_peak.value : 0) +
		     (s->hugetlb_peak.known ? s->hugetlb_peak.value : 0));
}

/* Why no request of this run can be judged; NULL if they can. */
static const char *obstacle(const struct summary *s)
{
	if (!run_succeeded(s))
		return "the run did not end with status 0, so its needs are unknown";
	if (s->facts->srun_seen.known && s->facts->srun_seen.value)
		return "the tasks that srun started were not measured";
	if (client_find(s).name)
		return "a client of a daemon ran for most of the time, and its work was not measured";
	if (s->facts->ranks.known && s->facts->ranks.value > 1)
		return "only one of several ranks was measured";
	return NULL;
}

static void why_not(char (*ret)[256], const char *text)
{
	(void) snprintf(*ret, sizeof(*ret), "%s", text);
}

static void judge_memory(const struct summary *s, struct advice *a)
{
	const struct maybe requested = s->facts->request_bytes, all = s->facts->capacity_bytes;
	const bool slurm = s->facts->scheduler && strcmp(s->facts->scheduler, "slurm") == 0;
	char used[UNITS_LEN], of[UNITS_LEN];

	if (!a->peak_bytes.known)
		return why_not(&a->mem_why_not, "the peak is unknown");
	const int64_t enough = advice_memory(a->peak_bytes.value);

	if (!requested.known && !slurm)
		return why_not(&a->mem_why_not, "no memory was requested (--request ram=.. or a scheduler)");
	if (requested.known && all.known &&
		(double) requested.value >= (double) all.value * WHOLE_NODE_PERCENT / 100)
		return why_not(&a->mem_why_not, "the request is for the whole machine");
	if (requested.known && (double) enough >= (double) requested.value * MEM_PERCENT / 100) {
		(void) snprintf(a->mem_why_not, sizeof(a->mem_why_not),
			"%s would do; fires below %d %% of the %s requested",
			units_bytes(enough, UNITS_IEC, used), MEM_PERCENT,
			units_bytes(requested.value, UNITS_IEC, of));
		return;
	}
	a->mem_bytes = known(enough);
}

static void judge_time(const struct summary *s, struct advice *a)
{
	const struct maybe requested = s->facts->request_time_ns;
	char used[UNITS_LEN], of[UNITS_LEN];

	if (!a->wall_ns.known || !requested.known)
		return why_not(&a->time_why_not,
			requested.known ? "the wall time is unknown" : "no time was requested");
	const int64_t enough = advice_time(a->wall_ns.value);

	if ((double) a->wall_ns.value >= (double) requested.value * TIME_PERCENT / 100 ||
		enough >= requested.value) {
		(void) snprintf(a->time_why_not, sizeof(a->time_why_not),
			"the run took %s; fires below %d %% of the %s requested, where a shorter request would do",
			units_duration(a->wall_ns.value, used), TIME_PERCENT,
			units_duration(requested.value, of));
		return;
	}
	a->time_ns = known(enough);
}

/* Mean use, rounded up. A job with one busy stretch may need more; the text of the finding says
 * so. */
static void judge_cpus(const struct known_of_run *k, struct advice *a)
{
	const struct maybe used = maybe_max(k->s->cores_mean_ppm, k->earlier->cores_ppm);
	const struct maybe requested = k->s->facts->request_cpus;

	/* With a timeline, busy stretches count. */
	if (k->s->job && job_timeline(k->s->job, M_JOB_CPU_USER, 0)) {
		a->cpus = cpus_enough(k->s);
		return;
	}
	if (!used.known || !requested.known ||
		(double) used.value / 1e6 >= (double) requested.value * CPU_PERCENT / 100)
		return;
	const int64_t enough = used.value > 0 ? (used.value + 999999) / 1000000 : 1;

	if (enough < requested.value)
		a->cpus = known(enough);
}

void advice_make(const struct known_of_run *k, struct advice *ret)
{
	const struct maybe need = need_of(k->s);
	const char *no = obstacle(k->s);

	*ret = (struct advice) {
		.peak_bytes = maybe_max(need, k->earlier->peak_bytes),
		.runs = k->earlier->n + 1,
		.wall_ns = maybe_max(k->s->wall_ns, k->earlier->wall_ns),
	};
	ret->peak_is_bound = need.known && ret->peak_bytes.value == need.value &&
			     k->s->combined.method == METHOD_BOUNDED;
	ret->peak_is_earlier = ret->peak_bytes.known && (!need.known || ret->peak_bytes.value > need.value);
	if (no) {
		why_not(&ret->mem_why_not, no);
		why_not(&ret->time_why_not, no);
		return;
	}
	judge_memory(k->s, ret);
	judge_time(k->s, ret);
	judge_cpus(k, ret);
}
