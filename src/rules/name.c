/* SPDX-License-Identifier: MIT
 *
 * Resolves the names in a rule: metrics, series, fields of processes, time, exit.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/opt.h"
#include "base/parse.h"
#include "rules/rule_internal.h"

static const char *const parts[] = { [PART_PEAK] = ".peak", [PART_MEAN] = ".mean", [PART_LAST] = ".last" };

static const struct {
	const char *name;
	enum rule_field field;
} fields[] = { { "name", FIELD_NAME }, { "command", FIELD_COMMAND }, { "pid", FIELD_PID },
	{ "uid", FIELD_UID } };

/* Names of the run that are no metrics. */
static const struct {
	const char *name;
	enum rule_what what;
} bare[] = { { "time", RULE_TIME }, { "exit", RULE_EXIT } };

enum {
	BARE = sizeof(bare) / sizeof(bare[0]),
	FIELDS = sizeof(fields) / sizeof(fields[0]),
	CPUS = 3, /* cpu of the job, a process and the host, which are not in metric.def */
	NAMES = METRIC_COUNT + BARE + FIELDS + CPUS
};

/* Cuts ".peak" off word. */
static enum rule_part parse_part(char *word)
{
	const size_t len = strlen(word);

	for (int i = PART_PEAK; i <= PART_LAST; i++) {
		const size_t part = strlen(parts[i]);

		if (len > part && strcmp(word + len - part, parts[i]) == 0) {
			word[len - part] = '\0';
			return (enum rule_part) i;
		}
	}
	return PART_NOW;
}

/* The index of "gpu0" or "gpu[0]", after "gpu". */
static bool parse_index(const char **p, struct rule_name *ret)
{
	const char *s = *p;
	const bool bracket = parse_word(&s, "[");
	uint64_t index;

	if (parse_u64(&s, &index) < 0 || index > UINT16_MAX || (bracket && !parse_word(&s, "]")))
		return false;
	ret->indexed = true;
	ret->index = (uint32_t) index;
	*p = s;
	return true;
}

/* Moves past "ENTITY."; false if word does not begin with one. */
static bool parse_entity(const char **word, struct rule_name *ret)
{
	for (int e = ENTITY_COUNT - 1; e >= 0; e--) {
		const char *p = *word;

		if (!parse_word(&p, entity_name((enum entity) e)))
			continue;
		if (e == ENTITY_GPU)
			(void) parse_index(&p, ret);
		if (parse_word(&p, ".")) {
			ret->entity = (enum entity) e;
			*word = p;
			return true;
		}
	}
	return false;
}

static bool is_field(const char *word, struct rule_name *ret)
{
	for (size_t i = 0; ret->entity == ENTITY_PROCESS && i < FIELDS; i++) {
		if (strcmp(fields[i].name, word) != 0)
			continue;
		ret->what = RULE_FIELD;
		ret->field = fields[i].field;
		return true;
	}
	return false;
}

/* A metric of ret->entity; "cpu" is the time in user mode and in the kernel. */
static bool is_metric(const char *word, struct rule_name *ret)
{
	const bool is_cpu = strcmp(word, "cpu") == 0;

	ret->what = RULE_METRIC;
	ret->metric = metric_find(ret->entity, is_cpu ? "cpu_user" : word);
	ret->also = is_cpu ? metric_find(ret->entity, "cpu_system") : -1;
	return ret->metric >= 0 && (!is_cpu || ret->also >= 0);
}

/* All names, as written in a rule of some kind. */
struct vocabulary {
	char text[NAMES][48];
	const char *names[NAMES];
	size_t n;
};

static void vocabulary_add(struct vocabulary *v, const char *entity, const char *name)
{
	(void) snprintf(v->text[v->n], sizeof(v->text[0]), "%s%s%s", entity, *entity ? "." : "", name);
	v->names[v->n] = v->text[v->n];
	v->n++;
}

/* The entity whose names need no prefix. */
static enum entity plain_entity(enum rule_kind kind)
{
	return kind == RULE_FILTER ? ENTITY_PROCESS : ENTITY_JOB;
}

static void vocabulary_make(struct vocabulary *v, enum rule_kind kind)
{
	const enum entity plain = plain_entity(kind);

	v->n = 0;
	for (size_t i = 0; i < BARE; i++)
		vocabulary_add(v, "", bare[i].name);
	vocabulary_add(v, "", "cpu");
	vocabulary_add(v, "process", "cpu");
	vocabulary_add(v, "host", "cpu");
	for (size_t i = 0; i < FIELDS; i++)
		vocabulary_add(v, kind == RULE_FILTER ? "" : "process", fields[i].name);
	for (int m = 0; m < METRIC_COUNT; m++)
		vocabulary_add(
			v, metrics[m].entity == plain ? "" : entity_name(metrics[m].entity), metrics[m].name);
}

/* Keeps the names of entity, without the prefix. */
static void vocabulary_narrow(struct vocabulary *v, enum entity entity, enum rule_kind kind)
{
	const char *name = entity_name(entity);

	for (size_t i = 0; i < v->n; i++) {
		const char *dot = strchr(v->names[i], '.');
		const size_t len = dot ? (size_t) (dot - v->names[i]) : 0;
		const bool is_own = dot ? strlen(name) == len && memcmp(v->names[i], name, len) == 0
					: entity == plain_entity(kind);

		v->names[i] = !is_own ? NULL : dot ? dot + 1
						   : v->names[i];
	}
}

/* After "gpu." or "gpu0." only names of GPUs are suggested: the prefix does not count for the
 * distance. */
static int unknown_name(const char *word, enum rule_kind kind, struct rule_why *why)
{
	struct rule_name of = { .entity = plain_entity(kind) };
	struct vocabulary v;
	const char *own = word, *near;

	vocabulary_make(&v, kind);
	if (parse_entity(&own, &of))
		vocabulary_narrow(&v, of.entity, kind);
	near = opt_nearest(own, v.names, v.n);
	if (near)
		return rule_refuse(why, "unknown name '%s'; did you mean '%.*s%s'?", word, (int) (own - word),
			word, near);
	if (kind == RULE_FILTER)
		return rule_refuse(why,
			"unknown name '%s' for processes; docs/metrics.md lists all names, for example rss, cpu, name, gpu.mem",
			word);
	return rule_refuse(why, "unknown name '%s'; docs/metrics.md lists all names, for example %s", word,
		of.entity == ENTITY_GPU ? "gpu.busy, gpu.mem, gpu.power" : "ram, cpu, process.rss");
}

/* Names that other tools use. */
struct synonym {
	const char *word, *name;
};

static const struct synonym synonyms[] = {
	{ "memory", "ram" },
	{ "mem", "ram" },
	{ "vram", "gpu.mem" },
	{ "gpu", "gpu.busy" },
	{ "gpu_memory", "gpu.mem" },
	{ "gpu_util", "gpu.busy" },
	{ "exit_code", "exit" },
	{ "wall", "time" },
	{ NULL, NULL },
};

static const struct synonym process_synonyms[] = {
	{ "ram", "rss" },
	{ "memory", "rss" },
	{ "mem", "rss" },
	{ "cmd", "command" },
	{ "comm", "name" },
	{ "user", "uid" },
	{ "vram", "gpu.mem" },
	{ "gpu", "gpu.mem" },
	{ NULL, NULL },
};

static const char *synonym_of(const char *word, enum rule_kind kind)
{
	const struct synonym *s = kind == RULE_FILTER ? process_synonyms : synonyms;

	while (s->word && strcasecmp(s->word, word) != 0)
		s++;
	return s->name;
}

/* "gpu0": the synonym of "gpu", of that GPU. A filter has no GPU numbers. */
static const char *synonym_of_index(const char *word, enum rule_kind kind, char buf[RULE_NAME])
{
	static const char gpu[] = "gpu";
	struct rule_name of;
	const char *p = word + strlen(gpu), *name = synonym_of(gpu, kind);

	if (strncasecmp(word, gpu, strlen(gpu)) != 0 || !parse_index(&p, &of) || *p)
		return NULL;
	if (kind == RULE_FILTER)
		return name;
	(void) snprintf(buf, RULE_NAME, "%s%u%s", gpu, (unsigned) of.index, name + strlen(gpu));
	return buf;
}

/* The name most suggest meant by a bare word that would name a series; NULL: a series. */
static const char *suggest(const char *word, struct vocabulary *v, enum rule_kind kind, char buf[RULE_NAME])
{
	const size_t len = strlen(word);
	const char *synonym = synonym_of(word, kind);

	if (!synonym)
		synonym = synonym_of_index(word, kind, buf);
	if (synonym)
		return synonym;
	vocabulary_make(v, kind);
	for (size_t i = 0; i < v->n; i++) {
		if (strcasecmp(v->names[i], word) == 0)
			return v->names[i];
	}
	for (size_t i = 0; kind != RULE_FILTER && i < v->n; i++) {
		const char *dot = strchr(v->names[i], '.');

		if (dot && strcmp(dot + 1, word) == 0)
			return v->names[i];
		if (len > 2 && opt_edits(word, v->names[i]) == 1)
			return v->names[i];
	}
	return NULL;
}

static int name_series(
	const char *word, bool quoted, enum rule_kind kind, struct rule_name *ret, struct rule_why *why)
{
	struct vocabulary v;
	char buf[RULE_NAME];
	const char *near = quoted ? NULL : suggest(word, &v, kind, buf);

	if (near && kind == RULE_FILTER)
		return rule_refuse(why, "unknown name '%s' for processes; did you mean '%s'?", word, near);
	if (near)
		return rule_refuse(why,
			"unknown name '%s'; did you mean '%s'? For a user series of this name, write \"%s\" in quotes",
			word, near, word);
	if (kind == RULE_LIMIT || kind == RULE_FILTER || (!quoted && strpbrk(word, "[]")))
		return unknown_name(word, kind, why);
	ret->what = RULE_SERIES;
	ret->metric = ret->also = -1;
	(void) snprintf(ret->series, sizeof(ret->series), "%s", word);
	return 0;
}

/* A limit on gpu.mem is a limit on the job's memory on the GPU. */
static void limit_of_gpu(struct rule_name *name, enum rule_kind kind)
{
	const int part = metric_find(ENTITY_GPU, "job_mem");

	if (kind == RULE_LIMIT && name->what == RULE_METRIC && name->entity == ENTITY_GPU && part >= 0 &&
		strcmp(metrics[name->metric].name, "mem") == 0)
		name->metric = part;
}

/* A filter judges processes: names of GPUs become those of the process's part of the GPU. */
static int name_of_process(const char *word, enum rule_kind kind, struct rule_name *ret, struct rule_why *why)
{
	int part = -1;

	if (kind != RULE_FILTER || ret->entity == ENTITY_PROCESS || ret->entity == ENTITY_GPU_PROCESS)
		return 0;
	if (ret->entity == ENTITY_GPU && !ret->indexed)
		part = metric_find(ENTITY_GPU_PROCESS,
			ret->metric == M_GPU_BUSY ? "sm_busy" : metrics[ret->metric].name);
	if (part < 0)
		return rule_refuse(why,
			"'%s' is not a value of a process; a filter is a rule on rss, cpu, name, gpu.mem, ...",
			word);
	ret->entity = ENTITY_GPU_PROCESS;
	ret->metric = part;
	return 0;
}

/* "ram.peek": a metric with an unknown suffix. */
static int check_part(const char *word, struct rule_why *why)
{
	const char *dot = strrchr(word, '.');
	struct rule_name name = { .entity = ENTITY_JOB };
	char head[RULE_NAME];

	if (!dot || (size_t) (dot - word) >= sizeof(head))
		return 0;
	(void) snprintf(head, sizeof(head), "%.*s", (int) (dot - word), word);
	return is_metric(head, &name) ? rule_refuse(why, "'%s' has no '%s'; use %s.peak, %s.mean or %s.last",
						head, dot, head, head, head)
				      : 0;
}

static int name_bare(const char *word, enum rule_kind kind, struct rule_name *ret, struct rule_why *why)
{
	ret->entity = plain_entity(kind);
	for (size_t i = 0; i < BARE && kind != RULE_FILTER; i++) {
		if (strcmp(word, bare[i].name) != 0)
			continue;
		ret->what = bare[i].what;
		return 0;
	}
	if (is_field(word, ret) || is_metric(word, ret))
		return 0;
	if (check_part(word, why) < 0)
		return -EINVAL;
	return name_series(word, false, kind, ret, why);
}

int rule_name(
	const char *given, bool quoted, enum rule_kind kind, struct rule_name *ret, struct rule_why *why)
{
	char word[RULE_NAME];
	const char *p = word;

	*ret = (struct rule_name) { .entity = ENTITY_JOB, .metric = -1, .also = -1 };
	if (!*given)
		return rule_refuse(why, "missing name");
	if (strlen(given) >= sizeof(word))
		return rule_refuse(why, "the name is longer than %zu bytes", sizeof(word) - 1);
	(void) snprintf(word, sizeof(word), "%s", given);
	ret->part = parse_part(word);
	if (quoted)
		return name_series(word, true, kind, ret, why);
	if (!parse_entity(&p, ret))
		return name_bare(p, kind, ret, why);
	if (is_field(p, ret))
		return 0;
	if (!is_metric(p, ret))
		return unknown_name(word, kind, why);
	limit_of_gpu(ret, kind);
	return name_of_process(given, kind, ret, why);
}

char *rule_name_text(const struct rule_name *name, char buf[RULE_NAME])
{
	const char *part = name->part == PART_NOW ? "" : parts[name->part];
	char entity[24] = "";

	if (name->what == RULE_SERIES) {
		(void) snprintf(buf, RULE_NAME, "%.40s%s", name->series, part);
		return buf;
	}
	for (size_t i = 0; i < BARE; i++) {
		if (name->what != bare[i].what)
			continue;
		(void) snprintf(buf, RULE_NAME, "%s", bare[i].name);
		return buf;
	}
	if (name->indexed)
		(void) snprintf(entity, sizeof(entity), "gpu%u.", (unsigned) name->index);
	else if (name->entity != ENTITY_JOB)
		(void) snprintf(entity, sizeof(entity), "%s.", entity_name(name->entity));
	(void) snprintf(buf, RULE_NAME, "%s%s%s", entity,
		name->what == RULE_FIELD ? fields[name->field].name
		: name->also >= 0        ? "cpu"
					 : metrics[name->metric].name,
		part);
	return buf;
}
