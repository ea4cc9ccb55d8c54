/* SPDX-License-Identifier: MIT */
#include "sink/figures.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/parse.h"
#include "base/textwidth.h"

#define NS_PER_S 1000000000

/* signal(7); real-time signals have no names. */
static const struct {
	int number;
	const char *name;
} signals[] = {
	{ SIGHUP, "SIGHUP" },
	{ SIGINT, "SIGINT" },
	{ SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },
	{ SIGTRAP, "SIGTRAP" },
	{ SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },
	{ SIGFPE, "SIGFPE" },
	{ SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" },
	{ SIGSEGV, "SIGSEGV" },
	{ SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" },
	{ SIGALRM, "SIGALRM" },
	{ SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" },
	{ SIGXFSZ, "SIGXFSZ" },
	{ SIGVTALRM, "SIGVTALRM" },
	{ SIGPROF, "SIGPROF" },
	{ SIGIO, "SIGIO" },
	{ SIGPWR, "SIGPWR" },
	{ SIGSYS, "SIGSYS" },
};

const char *figure_signal(int signal, char buf[UNITS_LEN])
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (signals[i].number == signal)
			return signals[i].name;
	}
	(void) snprintf(buf, UNITS_LEN, "signal %d", signal);
	return buf;
}

struct ending ending_of(const struct summary *s)
{
	const struct facts *f = s->facts;
	const struct maybe code = job_exit_code(f);
	const int status = (int) f->exit_status.value;
	struct ending end = { .outcome = OUTCOME_EXIT, .code = (int) code.value, .code_known = code.known };

	if (!code.known)
		end.outcome = s->complete ? OUTCOME_UNSEEN : OUTCOME_UNFINISHED;
	else if (f->stopped_by.known)
		end.outcome = OUTCOME_LIMIT;
	else if (WIFSIGNALED(status)) {
		end.outcome = OUTCOME_SIGNAL;
		end.signal = WTERMSIG(status);
	}
	return end;
}

bool figure_outlived(const struct summary *s)
{
	static const int64_t least_ns = 1000000, least_share = 100;
	const int64_t beyond_ns = s->wall_ns.value - s->main_wall_ns.value;

	return s->wall_ns.known && s->main_wall_ns.known && beyond_ns >= least_ns && beyond_ns >= s->wall_ns.value / least_share;
}

/* Without printf's %f, which writes the locale's decimal point. */
static char *fixed(double value, unsigned decimals, char buf[UNITS_LEN])
{
	static const int64_t powers[] = { 1, 10, 100, 1000, 10000 };
	int64_t n = llround(fabs(value) * (double) powers[decimals]);
	const char *sign = value < 0 && n > 0 ? "-" : "";

	if (decimals == 0)
		(void) snprintf(buf, UNITS_LEN, "%s%" PRId64, sign, n);
	else
		(void) snprintf(buf, UNITS_LEN, "%s%" PRId64 ".%0*" PRId64, sign, n / powers[decimals],
			(int) decimals, n % powers[decimals]);
	return buf;
}

char *figure_number(double value, char buf[UNITS_LEN])
{
	double size = fabs(value);

	if (size >= 99.95 || size == 0)
		return fixed(value, 0, buf);
	if (size >= 9.995)
		return fixed(value, 1, buf);
	if (size >= 0.9995)
		return fixed(value, 2, buf);
	return fixed(value, size >= 0.09995 ? 3 : 4, buf);
}

char *figure_any(double value, char buf[UNITS_LEN])
{
	int exponent = 0;
	char mantissa[UNITS_LEN];

	if (!isfinite(value)) {
		(void) snprintf(buf, UNITS_LEN, "%s", isnan(value) ? "NaN" : value < 0 ? "-Infinity"
										       : "Infinity");
		return buf;
	}
	if (fabs(value) < 1e6 && value == round(value))
		return fixed(value, 0, buf);
	if (fabs(value) >= 0.001 && fabs(value) < 1e6)
		return figure_number(value, buf);
	exponent = (int) floor(log10(fabs(value)));
	/* In two steps: 10^-308 times a denormal number would be infinite. */
	(void) fixed(value / pow(10, exponent / 2) / pow(10, exponent - exponent / 2), 2, mantissa);
	(void) snprintf(buf, UNITS_LEN, "%.20se%d", mantissa, exponent);
	return buf;
}

char *figure_rate(const struct facts *f, char buf[UNITS_LEN])
{
	char number[UNITS_LEN];
	const int64_t ns = f->interval_ns.value;

	buf[0] = '\0';
	if (!f->interval_ns.known || ns <= 0)
		return buf;
	if (ns <= NS_PER_S) {
		double rate = (double) NS_PER_S / (double) ns;
		bool whole = fabs(rate - round(rate)) < 0.005;

		(void) snprintf(buf, UNITS_LEN, "%.30s/s", whole ? fixed(rate, 0, number) : figure_number(rate, number));
	} else {
		(void) snprintf(buf, UNITS_LEN, "every %.33s", units_duration(ns, number));
	}
	return buf;
}

struct ceiling ceiling_of(const struct summary *s)
{
	const struct facts *f = s->facts;
	struct maybe limit = maybe_min(f->limit_bytes, s->cgroup_limit);
	bool limit_counts = limit.known && (!f->capacity_bytes.known || limit.value <= f->capacity_bytes.value);

	if (f->request_bytes.known && !(limit_counts && (limit.value < f->request_bytes.value || s->oom_killed)))
		return (struct ceiling) { f->request_bytes, "requested" };
	if (limit_counts)
		return (struct ceiling) { limit, "limit" };
	return (struct ceiling) { f->capacity_bytes, "on this machine" };
}

/* Bounds that differ by no more than a hundredth are as good as one number. */
static void bounds(const struct ram_figure *r, const struct sink_options *o, struct buf *out)
{
	char low[UNITS_LEN], high[UNITS_LEN];

	if (!r->low.known || !r->high.known)
		return;
	if (r->high.value - r->low.value <= r->peak.value / 100) {
		buf_str(out, o->plain ? " within 1 percent" : " within" NB "1" NB "%");
		return;
	}
	(void) units_bytes_like(r->low.value, r->high.value, o->units, low);
	(void) units_bytes(r->high.value, o->units, high);
	buf_printf(out, o->plain ? " between %s and %s" : o->utf8 ? NB "%s\xE2\x80\x93%s"
								  : NB "%s-%s",
		keep_together(low), keep_together(high));
}

char *figure_sampled(enum method method, const struct facts *f, char buf[2 * UNITS_LEN])
{
	char rate[UNITS_LEN];
	const bool has_rate = figure_rate(f, rate)[0] != '\0';

	buf[0] = '\0';
	if (method == METHOD_SAMPLED)
		(void) snprintf(buf, 2 * UNITS_LEN, NB "sampled%s%s", has_rate ? NB : "", keep_together(rate));
	return buf;
}

void figure_method(const struct ram_figure *r, const struct facts *f, const struct sink_options *o, struct buf *out)
{
	char rate[UNITS_LEN];

	buf_str(out, r->method == METHOD_UNKNOWN ? "unknown how" : method_name(r->method));
	if (r->method == METHOD_BOUNDED)
		bounds(r, o, out);
	if (r->method == METHOD_SAMPLED && figure_rate(f, rate)[0])
		buf_printf(out, NB "%s", keep_together(rate));
	if (r->source && r->method != METHOD_UNKNOWN)
		buf_printf(out, " (%s)", r->source);
}

struct maybe figure_risen(const struct summary *s, enum metric metric)
{
	const struct acc *acc = s->job ? job_acc(s->job, metric, 0) : NULL;

	return acc && acc->n > 0 ? known(acc->max - acc->min) : UNKNOWN;
}

struct maybe figure_cores(const struct facts *f)
{
	struct maybe all = f->cpus.known ? known(f->cpus.value * 1000000) : UNKNOWN;

	return maybe_min(all, f->limit_cpu_ppm);
}

char *figure_core_count(int64_t ppm, char buf[UNITS_LEN])
{
	return ppm % 1000000 == 0 ? fixed((double) ppm / 1e6, 0, buf) : figure_number((double) ppm / 1e6, buf);
}

bool figure_run(const struct facts *f, const struct sink_options *o, uint64_t *ret)
{
	size_t folder = o->history ? strlen(o->history) : 0;
	const char *p = f->recording;
	uint64_t number;

	if (folder == 0 || !p || strncmp(p, o->history, folder) != 0)
		return false;
	p += folder;
	while (*p == '/')
		p++;
	if (parse_u64(&p, &number) < 0 || strcmp(p, ".hiw") != 0)
		return false;
	*ret = number;
	return true;
}

static int larger_first(const void *a, const void *b)
{
	const struct process *x = *(const struct process *const *) a, *y = *(const struct process *const *) b;

	if (x->peak_bytes != y->peak_bytes)
		return x->peak_bytes < y->peak_bytes ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

int figure_processes(const struct job *job, const struct process ***ret, size_t *ret_n)
{
	size_t n = job ? job_process_count(job) : 0;
	const struct process **list = n > 0 ? calloc(n, sizeof(*list)) : NULL;

	if (n > 0 && !list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list[i] = job_process(job, i);
	if (n > 0)
		qsort(list, n, sizeof(*list), larger_first);
	*ret = list;
	*ret_n = n;
	return 0;
}

const struct figure_throttle figure_throttles[FIGURE_THROTTLES] = {
	{ M_GPU_THROTTLE_POWER, "power limit" },
	{ M_GPU_THROTTLE_THERMAL, "heat" },
	{ M_GPU_THROTTLE_HW, "hardware" },
	{ M_GPU_THROTTLE_OTHER, "other reasons" },
};

/* Facts are lines of KEY=VALUE. A first one that is called like the phase is its number: "epoch 3". */
void figure_phase(const struct phase *p, bool all, struct buf *out)
{
	const size_t name_len = strlen(p->name);
	const char *line = p->facts ? p->facts : "";

	buf_str(out, p->name);
	if (strncmp(line, p->name, name_len) == 0 && line[name_len] == '=') {
		const size_t len = strcspn(line, "\n");

		buf_printf(out, " %.*s", (int) (len - name_len - 1), line + name_len + 1);
		line += len + (line[len] == '\n');
	}
	while (all && *line) {
		const size_t len = strcspn(line, "\n");

		buf_printf(out, ", %.*s", (int) len, line);
		line += len + (line[len] == '\n');
	}
}

char *keep_together(char *text)
{
	for (char *p = text; *p; p++) {
		if (*p == ' ')
			*p = NB[0];
	}
	return text;
}

bool figure_has_gpus(const struct summary *s)
{
	return (s->job && job_gpu_count(s->job) > 0) || s->facts->gpu_seen.value == 1 ||
	       (s->facts->gpu_asked.known && s->facts->gpu_asked.value == 0);
}

bool figure_gpu_used(const struct summary *s, uint32_t id)
{
	enum method method;
	const struct maybe held = summary_gpu_job_peak(s, id, &method);

	return !held.known || held.value > 0;
}

bool figure_gpu_beside(const struct summary *s, uint32_t id)
{
	const size_t few = 2, n = job_gpu_count(s->job);
	bool any = n > few;

	for (size_t i = 0; i < n; i++)
		any = any || figure_gpu_used(s, job_gpu(s->job, i)->birth.id);
	return any && !figure_gpu_used(s, id);
}

const char *figure_gpu_lead(enum metric lead)
{
	return lead == M_GPU_SM_ACTIVE ? "SM active" : lead == M_GPU_GRAPHICS_ACTIVE ? "engine active"
										     : "busy";
}
