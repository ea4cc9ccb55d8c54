/* SPDX-License-Identifier: MIT
 *
 * Creating and freeing a sampler, and the start of a run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/smallfile.h"
#include "sample/sampler_internal.h"

#define SECOND UINT64_C(1000000000)

/* ---- creation -------------------------------------------------------------------------------- */

static int open_clock(struct sampler *s, struct err *err)
{
	s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (s->timer >= 0)
		return 0;
	const int error = errno;

	(void) snprintf(s->clock_why, sizeof(s->clock_why),
		"no samples were taken: cannot create the sampling timer: %s", strerror(error));
	return s->options.may_lack_clock ? 0 : err_set(err, -error, "%s", s->clock_why);
}

static int make_job(struct sampler *s)
{
	const struct job_config config = {
		.page_bytes = s->machine.page_bytes,
		.fault_page_bytes = s->machine.fault_page_bytes,
		.huge_page_bytes = s->machine.huge_page_bytes,
		.machine_bytes = s->machine.mem_total_bytes,
		.rss_error_bytes = s->machine.rss_error_bytes,
		.ours = s->options.ours,
		.everyone = s->options.everyone,
	};

	s->job = job_new(&config);
	return s->job ? 0 : -ENOMEM;
}

int sampler_new(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->options = *options;
	s->timer = s->oom.log = -1;
	s->own_cpu_at_start_ns = clock_process_cpu_ns();
	(void) machine_read(options->root, &s->machine);
	r = open_clock(s, err);
	if (r == 0)
		r = make_job(s);
	if (r < 0) {
		sampler_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void close_sources(struct sampler *s)
{
	sampler_plan_close(s);
	taskstats_close(s->taskstats);
	processes_free(s->processes);
	s->taskstats = NULL;
	s->processes = NULL;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	sampler_gpu_free(s);
	close_sources(s);
	job_free(s->job);
	framebuf_done(&s->buf);
	framebuf_done(&s->totals);
	pid_list_done(&s->preexisting);
	if (s->timer >= 0)
		(void) close(s->timer);
	if (s->oom.log >= 0)
		(void) close(s->oom.log);
	free(s);
}

/* ---- few descriptors ------------------------------------------------------------------------- */

/* With a low limit of open files (ulimit -n), descriptors are reserved while sources open
 * theirs, so that enough remain for temporary use. */
struct spare {
	int fd[8];
};

enum {
	FEW_FILES = 64,
	FEW_LEFT = 40, /* if the others are inherited */
};

static bool are_few(rlim_t *ret)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
		(limit.rlim_cur >= FEW_FILES && descriptors_are_left(FEW_LEFT)))
		return false;
	*ret = limit.rlim_cur;
	return true;
}

static struct spare spare_reserve(const struct sampler *s)
{
	struct spare spare;
	rlim_t limit;
	const bool few = are_few(&limit);

	for (size_t i = 0; i < sizeof(spare.fd) / sizeof(*spare.fd); i++)
		spare.fd[i] = few ? fcntl(s->timer, F_DUPFD_CLOEXEC, 0) : -1;
	return spare;
}

static void spare_release(struct spare *spare)
{
	for (size_t i = 0; i < sizeof(spare->fd) / sizeof(*spare->fd); i++)
		cleanup_close(&spare->fd[i]);
}

/* ---- the start ------------------------------------------------------------------------------- */

static void set_start_facts(struct sampler *s, pid_t pid)
{
	struct facts *f = job_facts(s->job);
	rlim_t files;

	f->started_boot_ns = known((int64_t) s->start_boot_ns);
	f->started_wall_ns = known((int64_t) clock_wall_ns() - (int64_t) sampler_time(s));
	f->main_pid = known(pid);
	f->interval_ns = known((int64_t) s->options.interval_ns);
	f->window_ns = known((int64_t) s->options.window_ns);
	f->cpus = maybe_min(known(s->machine.cpus), f->node_cpus);
	if (s->machine.mem_total_bytes)
		f->capacity_bytes = known((int64_t) s->machine.mem_total_bytes);
	f->shmem_at_start_bytes = s->machine.shmem;
	f->fabric_bits_per_s = s->machine.fabric_bits_per_s;
	if (*s->machine.fabric_ports)
		(void) job_set_text(&f->fabric_ports, s->machine.fabric_ports);
	f->rss_error_bytes = known((int64_t) s->machine.rss_error_bytes);
	f->huge_page_bytes = known((int64_t) s->machine.huge_page_bytes);
	f->fault_page_bytes = known((int64_t) s->machine.fault_page_bytes);
	f->file_fault_bytes = known((int64_t) s->machine.file_fault_bytes);
	if (s->options.ours)
		f->main_hwm_at_start_bytes = known(0);
	if (are_few(&files))
		f->few_files = known((int64_t) files);
	(void) job_set_text(&f->kernel, s->machine.kernel);
	(void) job_set_text(&f->cpu_model, s->machine.cpu_model);
	(void) job_set_text(&f->container, s->machine.container);
	if (s->machine.pid_namespace)
		f->pid_namespace = known(1);
	if (!f->host)
		(void) job_set_text(&f->host, s->machine.hostname);
}

static void open_taskstats(struct sampler *s)
{
	struct spare spare = spare_reserve(s);

	if (s->options.root->live && !s->taskstats && !s->options.everyone)
		(void) taskstats_open(&s->taskstats, NULL);
	spare_release(&spare);
}

bool sampler_has_preexisting(const struct sampler *s)
{
	return s->processes && processes_has_preexisting(s->processes);
}

static void count_early(struct sampler *s)
{
	counters_before_fork_read(s->options.root, s->options.cgroup == CGROUP_NONE, &s->early);
	s->counted_early = true;
}

/* A counter is reported from its first value: for a job that hiwater starts, the one before the
 * fork, since the job may use huge pages or run out of memory before its sources are open. When
 * attaching, the first value is read now. */
static void report_early_counts(struct sampler *s)
{
	if (!s->counted_early)
		count_early(s);
	if (s->early.oom_kills.known)
		framebuf_value(&s->buf, M_HOST_OOM_KILLS, 0, s->early.oom_kills.value);
	if (s->early.thp_faults.known)
		framebuf_value(&s->buf, M_HOST_THP_FAULTS, 0, s->early.thp_faults.value);
	sampler_show(s, &s->buf, FRAME_HOST, 0, 3 * s->options.window_ns);
}

/* A job's first children may end before its first sample: from here on the kernel reports their
 * ends. */
void sampler_forking(struct sampler *s)
{
	count_early(s);
	open_taskstats(s);
	if (s->taskstats)
		taskstats_precede(s->taskstats);
	processes_list_preexisting(s->options.root, &s->preexisting);
	s->forking_boot_ns = clock_boot_ns();
}

static void set_foreign_reason(struct sampler *s)
{
	struct buf why = BUF_INIT(512);

	(void) buf_printf(&why, "%s: %s", s->foreign->why, s->foreign->remedy);
	(void) job_set_text(&job_facts(s->job)->processes_why, why.data);
	buf_done(&why);
}

static int start_first(struct sampler *s, pid_t pid, struct err *err)
{
	int r;

	/* Time starts with the job's CPU time. */
	s->start_boot_ns = s->forking_boot_ns ? s->forking_boot_ns : clock_boot_ns();
	s->env = (struct source_env) {
		.root = s->options.root,
		.start_boot_ns = s->start_boot_ns,
		.recorder_pid = getpid(),
		.workdir = s->options.workdir,
		.touched = s->options.touched,
		.touched_ctx = s->options.touched_ctx,
	};
	s->foreign = s->options.everyone ? NULL : processes_proc_lack(s->options.root);
	if (s->foreign && !s->options.ours)
		return err_set(err, -EXDEV, "cannot attach to a process: %s: %s", s->foreign->why,
			s->foreign->remedy);
	r = processes_new(&s->env, s->options.ours, &s->processes, err);
	if (r < 0)
		return r;
	if (s->options.everyone)
		processes_add_all(s->processes);
	set_start_facts(s, pid);
	if (s->foreign)
		set_foreign_reason(s);
	open_taskstats(s);
	job_facts(s->job)->taskstats = known(s->taskstats != NULL);
	s->pss.budget_ns = 100000000;
	s->next_window_ns = s->options.window_ns;
	s->next_full_search_ns = SECOND;
	s->next_cgroup_check_ns = s->options.ours ? SECOND : 0;
	for (size_t i = 0; i < s->n_ignored; i++)
		processes_ignore(s->processes, s->ignored[i]);
	processes_ignore_preexisting(s->processes, &s->preexisting);
	struct spare spare = spare_reserve(s);

	sampler_plan_open_host(s);
	spare_release(&spare);
	sampler_oom_log(s);
	report_early_counts(s);
	sampler_plan_pages(s, 0);
	r = sampler_start_clock(s);
	return r < 0 ? err_set(err, r, "cannot set the sampling timer: %s", strerror(-r)) : 0;
}

/* Undoes a failed start, so that another process can be tried. */
static void undo_start(struct sampler *s)
{
	(void) sampler_set_timer(s, 0, 0);
	close_sources(s);
	s->start_boot_ns = 0;
}

static int find_cgroup(struct sampler *s, pid_t pid)
{
	if (s->options.cgroup == CGROUP_NONE || s->options.everyone)
		return -ENOENT;
	if (s->options.cgroup_path)
		return cgroup_at(s->options.root, s->options.cgroup_path, &s->cgroup);
	if (s->foreign)
		return -ESRCH;
	return cgroup_of(s->options.root, pid, &s->cgroup);
}

/* The last-pid gate is tested with the fork of the main process, or, if another process forked
 * that, with one of our own. When attaching, the high-water mark from before the run does not
 * count. */
static void start_of_main(struct sampler *s, pid_t pid)
{
	struct facts *f = job_facts(s->job);
	const uint32_t id = processes_id(s->processes, pid);
	const char *why_not;
	struct rlimit rss;

	if (s->options.root->live)
		processes_test_gate(s->processes, s->options.ours ? pid : spent_pid());
	if (!s->options.ours && id && s->options.reset_hwm && processes_reset_hwm(s->processes, id) == 0)
		f->main_hwm_reset = known(1);
	if (s->options.root->live && prlimit(pid, RLIMIT_RSS, NULL, &rss) == 0 &&
		rss.rlim_cur != RLIM_INFINITY)
		f->rss_limit_bytes = known_unsigned(rss.rlim_cur);
	f->gate = known(processes_gate_works(s->processes, &why_not));
	if (find_cgroup(s, pid) == 0) {
		(void) job_set_text(&f->cgroup, s->cgroup.path);
		f->limit_bytes = s->cgroup.limit_bytes;
		if (s->cgroup.limit_bytes.known)
			f->limit_is_own = known(strcmp(s->cgroup.path, s->cgroup.limit_path) == 0);
		f->limit_cpu_ppm = s->cgroup.cpu_limit_ppm;
		if (!f->scheduler || !*f->scheduler)
			(void) job_set_text(&f->scheduler, s->cgroup.scheduler);
	}
}

/* A further attached process: only it is read now. The others and its children follow with the
 * next sample, since a search of /proc for each of thousands would take minutes. */
static void read_further(struct sampler *s, uint64_t now)
{
	const unsigned all = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM;
	const uint32_t id = s->buf.n_births > 0 ? s->buf.births[0].id : 0; /* 0: already a member */

	sampler_show(s, &s->buf, FRAME_PROCFS, now, 3 * s->options.interval_ns);
	s->next_full_search_ns = 0;
	(void) processes_read_some(s->processes, all, &id, id != 0, &s->buf);
	s->next_records_ns = 0;
	sampler_show(s, &s->buf, FRAME_PROCFS, now, 3 * s->options.window_ns);
}

static void read_main(struct sampler *s, pid_t pid)
{
	const unsigned what = PROCESSES_CPU | (s->options.ours ? 0 : PROCESSES_IO | PROCESSES_HWM);

	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), 3 * s->options.interval_ns);
	start_of_main(s, pid);
	sampler_oom_cgroup(s);
	struct spare spare = spare_reserve(s);

	sampler_plan_open(s);
	spare_release(&spare);
	s->started = true;
	sampler_read_processes(s, sampler_time(s), SCAN_FULL, what);
}

static void set_start_error(struct sampler *s, pid_t pid, int error, struct err *err)
{
	const int32_t process = error == -ESRCH && s->processes ? processes_of_thread(s->processes, pid) : 0;

	if (process)
		(void) err_set(err, error, "%d is a thread of process %d; give the process number", (int) pid,
			(int) process);
	else if (!err || !err->text[0])
		(void) err_set(err, error, "process %d: %s", (int) pid, strerror(-error));
}

/* The group of the first process does not have one that was attached from another group (tasks of a Slurm step). */
static void check_common_cgroup(struct sampler *s, pid_t pid)
{
	struct facts *f = job_facts(s->job);

	if (s->options.cgroup_path || !s->cgroup.path[0] || !f->main_pid.known)
		return;
	if (cgroup_is_common(s->options.root, pid, (pid_t) f->main_pid.value))
		return;
	s->cgroup.exclusive = false;
	f->cgroup_exclusive = known(0);
}

int sampler_start(struct sampler *s, pid_t pid, struct err *err)
{
	const bool first = !s->started;
	int r = first ? start_first(s, pid, err) : 0;

	if (r == 0)
		r = processes_adopt(s->processes, pid, first, &s->buf);
	if (r < 0) {
		framebuf_clear(&s->buf);
		set_start_error(s, pid, r, err);
		if (first)
			undo_start(s);
		return r;
	}
	s->n_attached++;
	if (first) {
		read_main(s, pid);
	} else {
		check_common_cgroup(s, pid);
		read_further(s, sampler_time(s));
	}
	return 0;
}

struct job *sampler_job(struct sampler *s)
{
	return s->job;
}

void sampler_ignore(struct sampler *s, pid_t pid)
{
	if (s->n_ignored < SAMPLER_IGNORED && !s->started)
		s->ignored[s->n_ignored++] = pid;
	if (s->processes)
		processes_ignore(s->processes, pid);
}
