/* SPDX-License-Identifier: MIT */
#include "cli/doctor_overview.h"

#include <string.h>

#include "cli/columns.h"
#include "cli/terminal.h"

/* A topic is available if its metric is. rank: of its remedy among those of the topics that are missing,
 * from 1; 0: none is offered. gain: what the remedy adds. */
static const struct topic {
	const char *name, *entity, *metric; /* entity NULL: a fact of the machine */
	bool in_line;
	unsigned rank;
	const char *gain;
} topics[] = {
	{ "RAM", "process", "rss", true, 1, "memory of the job" },
	{ "shared RAM", "process", "pss", false, 5, "memory that processes share, counted once" },
	{ "short processes", NULL, "exit records", false, 4, "exact peaks of processes that end between two samples" },
	{ "CPU", "process", "cpu_user", true, 6, "CPU time" },
	{ "I/O", "process", "read_bytes", true, 7, "bytes read and written" },
	{ "disks", "host", "disk_read", true, 0, "" },
	{ "network", "host", "net_rx", true, 0, "" },
	{ "pressure", "host", "psi_mem", false, 12, "time lost to a lack of memory, CPU or disk" },
	{ "cgroup", "job", "cgroup_mem", true, 9, "page cache, kernel memory and OOM kills of the job" },
	{ "energy", "host", "energy", true, 11, "energy of the CPUs" },
	{ "GPU memory", "gpu", "mem", true, 2, "GPU memory" },
	{ "GPU use", "gpu", "busy", true, 8, "how busy the GPUs are" },
	{ "GPU processes", "gpu", "processes", false, 3, "the job's part of GPU memory" },
	{ "SM activity", "gpu", "sm_active", false, 10, "how much of a GPU works" },
};

enum {
	TOPICS = sizeof(topics) / sizeof(*topics)
};

/* What was found about a topic. */
struct state {
	bool known, available;
	const char *text;   /* how, or why not */
	const char *remedy;
};

/* The value of "key: value" in the machine's facts; its length in *ret_len. NULL: there is none. */
static const char *fact(const char *machine, const char *key, size_t *ret_len)
{
	const size_t n = strlen(key);

	for (const char *p = machine; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		if (strncmp(p, key, n) != 0 || p[n] != ':')
			continue;
		p += n + 1;
		p += strspn(p, " ");
		*ret_len = strcspn(p, "\n");
		return p;
	}
	return NULL;
}

/* Exit records are no metric: "yes (taskstats): ...", or why not. */
static struct state state_of_fact(const struct findings_here *here, const struct topic *topic)
{
	static const char untested[] = "not tested", yes[] = "yes";
	size_t len;
	const char *value = fact(here->machine, topic->metric, &len);

	if (!value || strncmp(value, untested, sizeof(untested) - 1) == 0)
		return (struct state) { .known = false };
	if (strncmp(value, yes, sizeof(yes) - 1) == 0)
		return (struct state) { true, true, "exit records (taskstats)", "" };
	return (struct state) { true, false, "the kernel's exit records may not be read",
		"run hiwater as root or with CAP_NET_ADMIN" };
}

static struct state state_of(const struct findings_here *here, const struct topic *topic)
{
	if (!topic->entity)
		return state_of_fact(here, topic);
	for (size_t i = 0; i < here->n; i++) {
		const struct hwi_check *c = &here->checks[i];

		if (strcmp(c->entity, topic->entity) != 0 || strcmp(c->metric, topic->metric) != 0)
			continue;
		return (struct state) {
			.known = true,
			.available = c->available,
			.text = !c->available ? c->why_not : *c->how ? c->how
								     : c->origin,
			.remedy = c->available ? "" : c->remedy,
		};
	}
	return (struct state) { .known = false };
}

static bool is_of_gpu(const struct topic *topic)
{
	return topic->entity && strcmp(topic->entity, "gpu") == 0;
}

/* Without a GPU all of its topics are one. */
static bool has_gpu(const struct findings_here *here)
{
	static const char none[] = "no GPU";
	bool ret = false;

	for (size_t i = 0; i < TOPICS; i++) {
		const struct state s = state_of(here, &topics[i]);

		ret |= is_of_gpu(&topics[i]) && (s.available || (s.known && strcmp(s.text, none) != 0));
	}
	return ret;
}

/* Calls see with each topic of the line, available or not; "GPU" stands for those of a GPU that is not
 * there. */
static void each_in_line(const struct findings_here *here, bool available,
	void (*see)(void *ctx, const char *name), void *ctx)
{
	const bool gpu = has_gpu(here);

	for (size_t i = 0; i < TOPICS; i++) {
		const struct state s = state_of(here, &topics[i]);

		if (topics[i].in_line && s.known && s.available == available &&
			(gpu || !is_of_gpu(&topics[i])))
			see(ctx, topics[i].name);
	}
	if (!gpu && !available)
		see(ctx, "GPU");
}

/* The missing topic whose remedy gains most; NULL: there is none. */
static const struct topic *improvement(const struct findings_here *here, struct state *ret)
{
	const struct topic *best = NULL;

	for (size_t i = 0; i < TOPICS; i++) {
		const struct state s = state_of(here, &topics[i]);

		if (!s.known || s.available || !*s.remedy || topics[i].rank == 0 ||
			(best && best->rank <= topics[i].rank))
			continue;
		best = &topics[i];
		*ret = s;
	}
	return best;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct list {
	struct buf *out;
	const char *before;
};

static void add_name(void *ctx, const char *name)
{
	struct list *list = ctx;

	(void) buf_printf(list->out, "%s%s", list->before, name);
	list->before = ", ";
}

void doctor_overview_text(const struct findings_here *here, size_t width, struct buf *out)
{
	struct buf first = BUF_INIT(4096), second = BUF_INIT(1 << 16);
	struct list yes = { &first, "Here: " }, no = { &first, ". Not: " };
	struct state missing;
	const struct topic *topic = improvement(here, &missing);

	each_in_line(here, true, add_name, &yes);
	if (first.len == 0)
		(void) buf_str(&first, "Here: nothing");
	const size_t len = first.len;

	each_in_line(here, false, add_name, &no);
	const bool is_all = first.len == len;

	(void) buf_str(&first, ".");
	if (topic)
		(void) buf_printf(&second, "To add %s: %s.", topic->gain, missing.remedy);
	else
		(void) buf_str(&second, is_all ? "Nothing is missing." : "No remedy is known for what is missing.");
	add_two_columns(out, 0, first.data, width + 1, "", width);
	add_two_columns(out, 0, second.data, width + 1, "", width);
	buf_done(&first);
	buf_done(&second);
}

void doctor_overview_table(const struct findings_here *here, size_t width, struct buf *out)
{
	static const struct table_column columns[] = {
		{ .head = "WHAT", .is_left = true },
		{ .head = "HERE", .is_left = true },
		{ .head = "FROM, OR WHY NOT", .is_left = true, .least = 12 },
	};
	const bool gpu = has_gpu(here);
	struct table table;

	table_init(&table, columns, sizeof(columns) / sizeof(*columns), terminal_is_utf8());
	for (size_t i = 0; i < TOPICS; i++) {
		const struct state s = state_of(here, &topics[i]);

		if (!s.known || (!gpu && is_of_gpu(&topics[i])))
			continue;
		table_cell(&table, topics[i].name);
		table_cell(&table, s.available ? "yes" : "no");
		table_cell(&table, *s.text ? s.text : "the reason is not known");
	}
	if (!gpu) {
		table_cell(&table, "GPU");
		table_cell(&table, "no");
		table_cell(&table, "no GPU");
	}
	(void) table_put(&table, (unsigned) width, out);
	table_done(&table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_json_name(void *ctx, const char *name)
{
	json_str(ctx, name);
}

void doctor_overview_json(const struct findings_here *here, struct json *j)
{
	struct state missing;
	const struct topic *topic = improvement(here, &missing);

	json_key(j, "overview");
	json_object(j);
	json_key(j, "here");
	json_array(j);
	each_in_line(here, true, add_json_name, j);
	json_end(j);
	json_key(j, "missing");
	json_array(j);
	each_in_line(here, false, add_json_name, j);
	json_end(j);
	json_key_text(j, "gain", topic ? topic->gain : "");
	json_key_text(j, "improve", topic ? missing.remedy : "");
	json_end(j);
}
