/* SPDX-License-Identifier: MIT
 *
 * The public interface: doctor's data, processes and cgroups to attach to, and marks from inside a
 * job.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "gpu/gpu.h"
#include "sink/html/html.h"
#include "source/source.h"

/* ---- from inside a job ----------------------------------------------------------------------- */

int hiw_mark(const char *text, struct hiw_err *ret_err)
{
	const char *name = getenv("HIWATER_SOCKET");
	struct buf message = BUF_INIT(USER_MESSAGE_BYTES);
	struct err err = { "" };
	int r;

	if (!name || !*name)
		r = err_set(&err, -ENOENT,
			"this process belongs to no run (HIWATER_SOCKET is not set); start the job with hiwater run");
	else if ((r = user_events_check_mark(text, &err)) == 0)
		r = buf_printf(&message, "at %" PRIu64 " mark %s", clock_boot_ns(), text) < 0
			    ? message.error
			    : user_events_send(name, message.data, &err);
	buf_done(&message);
	return api_err(ret_err, &err, r);
}

/* ---- doctor ---------------------------------------------------------------------------------- */

struct doctor {
	void (*see)(void *ctx, const struct hwi_check *check);
	void (*see_reading)(void *ctx, const struct hwi_gpu_rate *reading);
	void *ctx;
	bool reported[METRIC_COUNT], available[METRIC_COUNT];
	/* why processes on GPUs cannot be listed, as gpu_probe reported it */
	char no_lists[512], lists_remedy[512];
};

static void report_probe(void *ctx, const struct source_probe *probe)
{
	struct doctor *doctor = ctx;
	const struct metric_info *metric = &metrics[probe->metric];
	const struct hwi_check check = {
		.entity = entity_name(metric->entity),
		.metric = metric->name,
		.sentence = metric->sentence,
		.origin = metric->origin,
		.available = probe->available,
		.how = probe->how,
		.why_not = probe->why_not,
		.remedy = probe->remedy,
	};

	if (probe->metric == M_GPU_PROCESSES) {
		(void) snprintf(doctor->no_lists, sizeof(doctor->no_lists), "%s", probe->why_not);
		(void) snprintf(doctor->lists_remedy, sizeof(doctor->lists_remedy), "%s", probe->remedy);
	}
	doctor->reported[probe->metric] = true;
	doctor->available[probe->metric] = probe->available;
	doctor->see(doctor->ctx, &check);
}

/* The metric that a metric of the job is computed from: the lists of processes on GPUs, the metric
 * of a process with the same name ("private" for "ram_private"), or else rss. */
static enum metric made_of(enum metric of_job)
{
	const char *name = metrics[of_job].name;

	if (strncmp(name, "gpu_", 4) == 0)
		return M_GPU_PROCESSES;
	int found = metric_find(ENTITY_PROCESS, strncmp(name, "ram_", 4) == 0 ? name + 4 : name);

	return found >= 0 ? (enum metric) found : M_PROC_RSS;
}

static bool is_of_lists(enum metric m)
{
	return m == M_GPU_JOB_MEM || m == M_GPU_OTHER_MEM || m == M_GPU_UNATTRIBUTED_MEM;
}

/* Reports the metrics that are computed from others, which are available if those are. */
static void report_totals(struct doctor *doctor)
{
	for (int m = 0; m < METRIC_COUNT; m++) {
		struct source_probe probe = { .metric = (enum metric) m,
			.how = "computed from the processes",
			.why_not = "",
			.remedy = "" };

		if ((metrics[m].entity != ENTITY_JOB && !is_of_lists((enum metric) m)) || doctor->reported[m])
			continue;
		const enum metric of = is_of_lists((enum metric) m) ? M_GPU_PROCESSES
								    : made_of((enum metric) m);

		probe.available = doctor->available[of];
		if (!probe.available) {
			probe.how = "";
			probe.why_not = of == M_GPU_PROCESSES ? doctor->no_lists
							      : "not available for single processes";
			probe.remedy = of == M_GPU_PROCESSES ? doctor->lists_remedy : "";
		}
		report_probe(doctor, &probe);
	}
}

static int open_root(const char *path, struct root *ret, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, root_open(path ? path : "/", ret, &err));
}

/* Does the cgroup have other processes than this one? Then a run from here has it not to itself. */
static bool is_shared(const struct root *root, const char *path)
{
	pid_t pids[2] = { 0 };
	ssize_t n = *path && root->live ? cgroup_pids(root, path, pids, 2) : 0;

	return n > 1 || (n == 1 && pids[0] != getpid());
}

static void report_rate(void *ctx, const struct gpu_schedule *plan)
{
	const struct doctor *doctor = ctx;
	const struct hwi_gpu_rate rate = {
		.source = plan->source,
		.group = plan->group,
		.contents = plan->contents,
		.planned_ns = plan->planned_ns,
		.moving_ns = plan->moving_ns,
		.idle_period_ns = plan->idle_period_ns,
		.lasting_ns = plan->lasting_ns,
		.why = plan->why,
		.cpu_ns = plan->cost.cpu_ns,
		.wall_ns = plan->cost.wall_ns,
		.tried = plan->cost.n > 0,
		.share_max = plan->share_max,
	};

	doctor->see_reading(doctor->ctx, &rate);
}

int hwi_doctor(const char *path, void (*see)(void *ctx, const struct hwi_check *check),
	void (*see_reading)(void *ctx, const struct hwi_gpu_rate *reading), void *ctx, struct hiw_err *err)
{
	const struct hiw_options defaults = HIW_OPTIONS_INIT;
	static const struct source_ops *const sources[] = { &source_host, &source_energy, &source_fabric,
		&source_cgroup };
	struct doctor doctor = { .see = see, .see_reading = see_reading, .ctx = ctx };
	struct cgroup_facts cgroup = { .path = "" };
	struct root root = { 0 };
	int r = open_root(path, &root, err);

	if (r < 0)
		return r;
	const pid_t pid = processes_example(&root);

	(void) cgroup_of(&root, pid, &cgroup);
	char *directory = root.live ? getcwd(NULL, 0) : NULL;
	const struct source_env env = {
		.root = &root,
		.recorder_pid = pid,
		.workdir = directory,
		.cgroup = cgroup.path,
		.cgroup_shared = is_shared(&root, cgroup.path),
		.cgroup_cpu = cgroup.cpu_path,
		.cgroup_limit = cgroup.limit_bytes.known ? cgroup.limit_path : NULL,
		.cgroup_limit_bytes = cgroup.limit_bytes,
	};

	processes_probe(&env, report_probe, &doctor);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		sources[i]->probe(&env, report_probe, &doctor);
	r = gpu_probe(gpu_vendors, &env, defaults.interval_ns, report_probe, see_reading ? report_rate : NULL,
		&doctor);
	report_totals(&doctor);
	free(directory);
	root_done(&root);
	return r;
}

static void write_machine(const struct machine *m, struct buf *out)
{
	char bytes[UNITS_LEN], error[UNITS_LEN];

	(void) buf_printf(out, "host: %s, Linux %s%s%s\n", *m->hostname ? m->hostname : "unknown",
		*m->kernel ? m->kernel : "of an unknown version", *m->container ? ", in " : "", m->container);
	(void) buf_printf(out, "CPUs: %u, %s\n", m->cpus, *m->cpu_model ? m->cpu_model : "unknown model");
	(void) buf_printf(out, "memory: %s\n", units_bytes((int64_t) m->mem_total_bytes, UNITS_IEC, bytes));
	if (m->rss_error_bytes)
		(void) buf_printf(out,
			"resident sizes: accurate to %s per process (per-CPU counters of this kernel)\n",
			units_bytes((int64_t) m->rss_error_bytes, UNITS_IEC, error));
	else
		(void) buf_str(out, "resident sizes: exact at each sample\n");
}

static void write_cgroup(const struct root *root, struct buf *out)
{
	struct cgroup_facts cgroup = { .path = "" };
	char limit[UNITS_LEN];

	if (cgroup_of(root, processes_example(root), &cgroup) < 0) {
		(void) buf_str(out, "cgroup: none\n");
		return;
	}
	(void) buf_printf(out, "cgroup: %s (v%d), memory limit %s%s\n", cgroup.path, cgroup.v2 ? 2 : 1,
		cgroup.limit_bytes.known ? units_bytes(cgroup.limit_bytes.value, UNITS_IEC, limit) : "none",
		is_shared(root, cgroup.path) ? ", shared with other processes" : "");
}

/* States how new processes are found. The gate's self-test forks, so it does not work on a captured
 * machine. */
static void write_gate(const struct root *root, struct buf *out)
{
	const struct source_env env = { .root = root, .recorder_pid = getpid() };
	struct processes *processes = NULL;
	const char *why_not = "";

	if (!root->live) {
		(void) buf_str(out, "new processes: not tested on a captured machine\n");
	} else if (processes_new(&env, false, &processes, NULL) < 0) {
		(void) buf_str(out, "new processes: cannot be found: /proc is not mounted\n");
	} else {
		processes_test_gate(processes, spent_pid());
		if (processes_gate_works(processes, &why_not))
			(void) buf_str(out,
				"new processes: searched for when the last PID of the kernel (loadavg) has changed\n");
		else
			(void) buf_printf(out,
				"new processes: searched for in the job's whole tree at each sample, which costs more; the "
				"last-PID gate is off: %s\n",
				why_not);
	}
	processes_free(processes);
}

static void write_exit_records(const struct root *root, struct buf *out)
{
	struct taskstats *taskstats = NULL;
	struct err err = { "" };

	if (!root->live)
		(void) buf_str(out, "exit records: not tested on a captured machine\n");
	else if (taskstats_open(&taskstats, &err) == 0)
		(void) buf_str(out, "exit records: yes (taskstats): the peak of every process is exact\n");
	else
		(void) buf_printf(out,
			"exit records: %s; without them a process's peak is its high-water mark at the last sample\n",
			err.text);
	taskstats_close(taskstats);
}

int hwi_doctor_machine(const char *path, char **ret, struct hiw_err *err)
{
	struct machine machine;
	struct buf out = BUF_INIT(1 << 16);
	struct root root = { 0 };
	int r = open_root(path, &root, err);

	if (r < 0)
		return r;
	(void) machine_read(&root, &machine);
	write_machine(&machine, &out);
	write_cgroup(&root, &out);
	write_gate(&root, &out);
	write_exit_records(&root, &out);
	if (!html_is_built())
		(void) buf_str(&out,
			"report: not available: this hiwater was built without uPlot, which draws its charts (tools/find-uplot)\n");
	*ret = out.error ? NULL : strdup(out.data);
	buf_done(&out);
	root_done(&root);
	return *ret ? 0 : -ENOMEM;
}

/* ---- processes to attach to ------------------------------------------------------------------ */

static int finish_pids(ssize_t found, size_t *ret_n, const char *what, const char *value, struct err *err)
{
	if (found == 0)
		return err_set(err, -ENOENT, "no process %s '%s'", what, value);
	if (found < 0)
		return err->text[0] ? (int) found
				    : err_set(err, (int) found, "'%s': %s", value, strerror((int) -found));
	*ret_n = (size_t) found;
	return 0;
}

int hwi_pids_by_name(const char *regex, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct root root = { 0 };
	int r = open_root(NULL, &root, ret_err);

	if (r < 0)
		return r;
	r = finish_pids(find_by_name(&root, regex, pids, n, &err), ret_n,
		"has a name or command line that matches", regex, &err);
	root_done(&root);
	return api_err(ret_err, &err, r);
}

int hwi_pids_by_cgroup(const char *path, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct root root = { 0 };
	int r = open_root(NULL, &root, ret_err);

	if (r < 0)
		return r;
	r = finish_pids(cgroup_pids(&root, path, pids, n), ret_n, "is in the cgroup", path, &err);
	root_done(&root);
	return api_err(ret_err, &err, r);
}

static int container_error(int r, const char *id, struct err *err)
{
	if (r == -EEXIST)
		return err_set(err, r, "the ids of several containers begin with '%s': give more of it", id);
	if (r == -ENOENT)
		return err_set(err, r, "no process here is in a container whose id begins with '%s'", id);
	return r < 0 ? err_set(err, r, "cannot read /proc: %s", strerror(-r)) : 0;
}

int hwi_container_find(const char *id, pid_t pid, char *ret_cgroup, size_t size, pid_t *pids, size_t n,
	size_t *ret_n, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct root root = { 0 };
	struct container found = { .id = "" };
	char of[CONTAINER_ID];
	int r = open_root(NULL, &root, ret_err);

	if (r < 0)
		return r;
	if (!id)
		r = container_of(&root, pid, of);
	if (r == -ESRCH)
		(void) err_set(&err, r, "process %d does not exist here", (int) pid);
	else if (r == -ENOENT)
		(void) err_set(&err, r, "process %d is in no container's cgroup", (int) pid);
	else
		r = container_error(container_find(&root, id ? id : of, pids, n, &found), id ? id : of, &err);
	if (r == 0) {
		(void) snprintf(ret_cgroup, size, "%s", found.cgroup);
		*ret_n = found.n;
	}
	root_done(&root);
	return api_err(ret_err, &err, r);
}

/* ---- helpers of the command ------------------------------------------------------------------ */

int hwi_cgroup_make(char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct root root = { 0 };
	int r = open_root(NULL, &root, ret_err);

	if (r < 0)
		return r;
	r = cgroup_make(&root, ret_path, size, ret_procs, ret_dir, &err);
	root_done(&root);
	return api_err(ret_err, &err, r);
}

int hwi_cgroup_remove(const char *path)
{
	struct root root = { 0 };
	int r = root_open("/", &root, NULL);

	if (r == 0)
		r = cgroup_remove(&root, path);
	root_done(&root);
	return r;
}

int hwi_pending_signals(pid_t pid, uint64_t *ret_mask)
{
	struct root root = { 0 };
	int r = root_open("/", &root, NULL);

	if (r == 0)
		r = pending_signals(&root, pid, ret_mask);
	root_done(&root);
	return r;
}

int64_t hwi_own_rss(void)
{
	struct root root = { 0 };
	uint64_t rss, hwm = 0;

	if (root_open("/", &root, NULL) == 0)
		(void) self_memory(&root, &rss, &hwm);
	root_done(&root);
	return (int64_t) hwm;
}

void hiw_recorder_forking(struct hiw_recorder *r)
{
	uint64_t rss, hwm;

	if (self_memory(&r->root, &rss, &hwm) == 0)
		job_facts(sampler_job(r->sampler))->fork_rss_bytes = known((int64_t) hwm);
	sampler_forking(r->sampler);
}

static const char *environment(void *ctx, const char *name)
{
	(void) ctx;
	return getenv(name);
}

void read_scheduler(struct scheduler *ret)
{
	scheduler_read(environment, NULL, ret);
}

int hwi_expand(const char *pattern, char **ret, struct hiw_err *ret_err)
{
	struct scheduler scheduler;
	struct err err = { "" };

	read_scheduler(&scheduler);
	return api_err(ret_err, &err, scheduler_expand(pattern, &scheduler, ret, &err));
}
