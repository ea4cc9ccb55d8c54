/* SPDX-License-Identifier: MIT
 *
 * nvidia-smi's --query-gpu and --query-compute-apps.
 */
#include "sink/gpus/gpus_smi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/opt.h"

enum {
	FIELDS_MOST = 256,
	NAME_MOST = 80,
	NAMES = 512,
};

struct table {
	const struct smi_field *fields;
	size_t n;
};

static struct table table_of(enum gpus_kind kind)
{
	return kind == GPUS_QUERY ? (struct table) { smi_gpu_fields, smi_n_gpu_fields }
				  : (struct table) { smi_app_fields, smi_n_app_fields };
}

/* ---- fields by name ------------------------------------------------------------------------------------------------- */

static const struct smi_field *find(const struct table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct smi_field *f = &t->fields[i];

		if (strcmp(f->name, name) == 0 || (f->alias[0] && strcmp(f->alias[0], name) == 0) ||
			(f->alias[1] && strcmp(f->alias[1], name) == 0))
			return f;
	}
	return NULL;
}

static int unknown_field(const struct table *t, enum gpus_kind kind, const char *name, struct err *err)
{
	const char *names[NAMES] = { NULL };
	size_t n = 0;

	for (size_t i = 0; i < t->n && n + 3 <= NAMES; i++) {
		names[n++] = t->fields[i].name;
		names[n++] = t->fields[i].alias[0];
		names[n++] = t->fields[i].alias[1];
	}
	const char *nearest = opt_nearest(name, names, n);

	return err_set(err, -EINVAL,
		"Field \"%s\" is not a valid field to query.%s%s%s hiwater gpus --help-query-%s lists all.",
		name, nearest ? " Did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "",
		kind == GPUS_QUERY ? "gpu" : "compute-apps");
}

/* The next name of "a,b, c". False: no more. */
static bool next_name(const char **list, char ret[NAME_MOST])
{
	const char *p = *list + strspn(*list, ", \t");
	const size_t n = strcspn(p, ", \t");

	if (n == 0)
		return false;
	(void) snprintf(ret, NAME_MOST, "%.*s", (int) (n < NAME_MOST ? n : NAME_MOST - 1), p);
	*list = p + n;
	return true;
}

/* Parses the list. Returns the number of fields, or -EINVAL with text. */
static int parse_fields(
	const struct gpus_options *g, const struct smi_field *ret[FIELDS_MOST], struct err *err)
{
	const struct table t = table_of(g->kind);
	const char *list = g->what;
	char name[NAME_MOST];
	int n = 0;

	while (next_name(&list, name)) {
		const struct smi_field *f = find(&t, name);

		if (!f)
			return unknown_field(&t, g->kind, name, err);
		if (n == FIELDS_MOST)
			return err_set(err, -EINVAL, "more than %d fields", FIELDS_MOST);
		ret[n++] = f;
	}
	if (n == 0)
		return err_set(err, -EINVAL, "no fields given; for example: --query-%s",
			g->kind == GPUS_QUERY ? "gpu=index,name,memory.used"
					      : "compute-apps=pid,used_memory");
	return n;
}

int gpus_query_plan(const struct gpus_options *g, struct gpus_needs *ret, struct err *err)
{
	const struct smi_field *fields[FIELDS_MOST];
	const int n = parse_fields(g, fields, err);

	ret->lists = g->kind == GPUS_QUERY_APPS;
	ret->pairs = ret->busy = false;
	for (int i = 0; i < n; i++) {
		if (fields[i]->from == FROM_FACT)
			ret->facts.has[fields[i]->which] = true;
		ret->busy |= fields[i]->from == FROM_METRIC;
	}
	return n < 0 ? n : 0;
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

static const struct form {
	const char *header, *unit;
} forms[] = {
	[SMI_PERCENT] = { " [%]", " %" },
	[SMI_MIB] = { " [MiB]", " MiB" },
	[SMI_WATTS] = { " [W]", " W" },
	[SMI_MHZ] = { " [MHz]", " MHz" },
	[SMI_MICROS] = { " [us]", " us" },
	[SMI_OWN] = { NULL, NULL },
};

static void put_number(enum smi_form form, int64_t v, struct buf *out)
{
	switch (form) {
	case SMI_PERCENT:
		(void) buf_printf(out, "%" PRId64, (v + 5000) / 10000);
		break;
	case SMI_MIB:
		(void) buf_printf(out, "%" PRId64, v >> 20);
		break;
	case SMI_WATTS:
		(void) buf_printf(
			out, "%" PRId64 ".%02" PRId64, (v + 5000) / 1000000, (v + 5000) / 10000 % 100);
		break;
	case SMI_MHZ:
		(void) buf_printf(out, "%" PRId64, v / 1000000);
		break;
	case SMI_CELSIUS:
		(void) buf_printf(out, "%" PRId64, (v < 0 ? v - 500 : v + 500) / 1000);
		break;
	case SMI_MICROS:
		(void) buf_printf(out, "%" PRId64, v / 1000);
		break;
	case SMI_ENABLED:
		(void) buf_str(out, v ? "Enabled" : "Disabled");
		break;
	case SMI_YES:
		(void) buf_str(out, v ? "Yes" : "No");
		break;
	case SMI_MASK16:
		(void) buf_printf(out, "0x%016" PRIX64, (uint64_t) v);
		break;
	case SMI_MASK8:
		(void) buf_printf(out, "0x%08" PRIX64, (uint64_t) v);
		break;
	case SMI_STATE:
		(void) buf_printf(out, "P%" PRId64, v);
		break;
	case SMI_COUNT:
	case SMI_TEXT:
	case SMI_OWN:
	default:
		(void) buf_printf(out, "%" PRId64, v);
		break;
	}
}

/* All figures of memory come from one call. */
static enum gpu_lack lack_of(const struct gpu_now *gpu, const struct smi_field *field)
{
	const bool of_memory = strncmp(field->name, "memory.", 7) == 0 && field->from != FROM_FACT;

	if (field->from == FROM_FACT)
		return gpu->facts[field->which].lack;
	return of_memory ? gpu->lacks[M_GPU_MEM] : field->from == FROM_METRIC ? gpu->lacks[field->which]
									      : GPU_LACK_NONE;
}

/* The text for a missing value. Before its branch 470, nvidia-smi used another word for unsupported
 * figures. */
static const char *absent(const struct gpu_now *gpu, const struct smi_field *field)
{
	static const char *const lacks[GPU_LACK_COUNT] = {
		[GPU_LACK_RIGHT] = "[Insufficient Permissions]",
		[GPU_LACK_ERROR] = "[Unknown Error]",
	};
	const struct maybe lost = gpu->facts[GF_LOST].number;
	const enum gpu_lack lack = lack_of(gpu, field);

	if (!lost.known && lack != GPU_LACK_NONE)
		return lacks[lack];
	if (lost.known)
		return lost.value == 16 ? "[GPU requires reset]" : "[GPU is lost]";
	if (field->from == FROM_METRIC && field->which == M_GPU_TEMP_MEM)
		return "N/A"; /* as nvidia-smi has it, of this field alone */
	return *gpu->driver && strncmp(gpu->driver, "470", 3) < 0 && strlen(gpu->driver) > 3 &&
			       gpu->driver[3] == '.'
		       ? "[Not Supported]"
		       : "[N/A]";
}

static bool put_value(const struct gpus_now *now, const struct gpu_now *gpu, const struct gpu_user_now *user,
	const struct smi_field *f, struct buf *out)
{
	struct maybe value;

	if (f->own)
		return f->own(now, gpu, user, f, out);
	if (f->from == FROM_FACT && f->form == SMI_TEXT) {
		smi_put_text(out, gpu->facts[f->which].text ? gpu->facts[f->which].text : "");
		return gpu->facts[f->which].text != NULL;
	}
	value = f->from == FROM_FACT ? gpu->facts[f->which].number : user ? user->metrics[f->which]
									  : gpu->metrics[f->which];
	if (value.known)
		put_number(f->form, value.value, out);
	return value.known;
}

struct query {
	const struct gpus_options *g;
	const struct gpus_now *now;
	const struct smi_field *fields[FIELDS_MOST];
	int n;
	struct buf *out;
};

static void put_header(const struct query *q)
{
	for (int i = 0; i < q->n; i++) {
		const struct form *form = &forms[q->fields[i]->form];

		(void) buf_printf(q->out, "%s%s%s", i ? ", " : "", q->fields[i]->name,
			form->header ? form->header : "");
	}
	(void) buf_str(q->out, "\n");
}

static void put_row(const struct query *q, const struct gpu_now *gpu, const struct gpu_user_now *user)
{
	for (int i = 0; i < q->n; i++) {
		const struct form *form = &forms[q->fields[i]->form];

		(void) buf_str(q->out, i ? ", " : "");
		if (!put_value(q->now, gpu, user, q->fields[i], q->out))
			(void) buf_str(q->out, absent(gpu, q->fields[i]));
		else if (q->g->units && form->unit)
			(void) buf_str(q->out, form->unit);
	}
	(void) buf_str(q->out, "\n");
}

/* Compute processes; with drivers that do not distinguish them, all processes. */
static void put_apps(const struct query *q, const struct gpu_now *gpu)
{
	for (int hidden = 0; hidden < 2; hidden++) {
		const struct gpu_user_now *u = NULL;

		while ((u = gpus_next_user(q->now, gpu, u, hidden))) {
			if (u->pid.known && (u->compute || !u->graphics))
				put_row(q, gpu, u);
		}
	}
}

void gpus_query(const struct gpus_options *g, const struct gpus_now *now, struct buf *out)
{
	struct query q = { .g = g, .now = now, .out = out };

	q.n = parse_fields(g, q.fields, NULL);
	if (g->header)
		put_header(&q);
	for (size_t i = 0; i < now->n_gpus; i++) {
		const struct gpu_now *gpu = &now->gpus[i];

		if (!gpu->is_chosen)
			continue;
		if (g->kind == GPUS_QUERY_APPS)
			put_apps(&q, gpu);
		else if (!*gpu->parent)
			put_row(&q, gpu, NULL);
	}
}

void gpus_query_help(enum gpus_kind kind, struct buf *out)
{
	const struct table t = table_of(kind);

	(void) buf_printf(out, "Fields of --query-%s, under nvidia-smi's names:\n",
		kind == GPUS_QUERY ? "gpu" : "compute-apps");
	for (size_t i = 0; i < t.n; i++) {
		const struct smi_field *f = &t.fields[i];

		(void) buf_printf(out, "\n\"%s\"", f->name);
		for (int a = 0; a < 2 && f->alias[a]; a++)
			(void) buf_printf(out, " or \"%s\"", f->alias[a]);
		(void) buf_printf(out, "\n%s.\n", f->sentence);
	}
}
