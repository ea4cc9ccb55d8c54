/* SPDX-License-Identifier: MIT */
#include "sink/export/openmetrics.h"

#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "base/units.h"
#include "sink/export/export_internal.h"

struct om_family om_family_of(const struct metric_info *m, bool is_max)
{
	const char *unit = export_suffix(m->unit);
	const size_t len = strlen(m->om), cut = strlen(unit);
	struct om_family f = {
		.om = m->om,
		.type = m->kind == KIND_COUNTER ? "counter" : "gauge",
		.help = m->sentence,
		.is_max = is_max,
	};

	if (cut > 0 && len > cut && strcmp(m->om + len - cut, unit) == 0)
		f.unit = unit;
	else
		f.unit = "";
	(void) snprintf(f.name, sizeof(f.name), "%.*s%s%s", (int) (len - strlen(f.unit)), m->om,
		is_max ? "_max" : "", f.unit);
	return f;
}

static const char *sample_suffix(const struct om_family *f)
{
	return strcmp(f->type, "counter") == 0 ? "_total" : strcmp(f->type, "info") == 0 ? "_info"
											 : "";
}

void om_put_head(struct buf *out, enum om_format format, const struct om_family *f)
{
	const bool is_old = format == OM_TEXT_0_0_4;
	const char *suffix = is_old ? sample_suffix(f) : "";
	const char *type = is_old && strcmp(f->type, "info") == 0 ? "gauge" : f->type;

	(void) buf_printf(out, "# TYPE %s%s %s\n", f->name, suffix, type);
	if (*f->unit && !is_old)
		(void) buf_printf(out, "# UNIT %s %s\n", f->name, f->unit + 1);
	(void) buf_printf(out, "# HELP %s%s %s%s\n", f->name, suffix,
		f->is_max ? "maximum of a window: " : "", f->help);
}

void om_put_sample_name(struct buf *out, const struct om_family *f)
{
	(void) buf_printf(out, "%s%s", f->name, sample_suffix(f));
}

void om_put_label(struct buf *out, const char *name, const char *value)
{
	(void) buf_printf(out, "%s%s=\"", out->len ? "," : "", name);
	while (*value) {
		if (*value == '"' || *value == '\\')
			(void) buf_str(out, "\\");
		if (*value != '\n') {
			value = text_clean_next(value, true, out);
			continue;
		}
		(void) buf_str(out, "\\n");
		value++;
	}
	(void) buf_str(out, "\"");
}

void om_put_value(struct buf *out, enum metric metric, int64_t value)
{
	char text[UNITS_LEN];

	(void) buf_str(out, units_decimal(value, export_digits(metrics[metric].unit), text));
}

void om_put_run_labels(struct buf *labels, const struct facts *f, bool with_user, bool with_command)
{
	const struct {
		const char *name, *value;
		bool is_shown, always;
	} all[] = {
		{ "name", f->name, true, true },
		{ "host", f->host, with_user, true },
		{ "user", f->user, with_user, true },
		{ "command", f->command, with_command, true },
		{ "scheduler", f->scheduler, true, true },
		{ "scheduler_job", f->scheduler_job, true, true },
		{ "version", f->version, true, true },
		{ "step", f->step, true, false },
		{ "node", f->node, true, false },
	};
	char number[UNITS_LEN];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *value = all[i].value && all[i].is_shown ? all[i].value : "";

		if (all[i].always || *value)
			om_put_label(labels, all[i].name, value);
	}
	if (f->rank.known)
		om_put_label(labels, "rank", units_decimal(f->rank.value, 0, number));
}
