/* SPDX-License-Identifier: MIT
 *
 * Numbers in a rule: units, and conversion to the unit of the name that they are compared with.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "rules/rule_internal.h"

int rule_refuse(struct rule_why *why, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(why->text, sizeof(why->text), format, ap);
	va_end(ap);
	return -EINVAL;
}

static const struct {
	const char *name;
	enum rule_dim dim;
	double size;
} units[] = {
	/* Of two with a common beginning the longer comes first. */
	{ "KiB", DIM_BYTES, 0x1p10 },
	{ "MiB", DIM_BYTES, 0x1p20 },
	{ "GiB", DIM_BYTES, 0x1p30 },
	{ "TiB", DIM_BYTES, 0x1p40 },
	{ "kB", DIM_BYTES, 1e3 },
	{ "KB", DIM_BYTES, 1e3 },
	{ "MB", DIM_BYTES, 1e6 },
	{ "GB", DIM_BYTES, 1e9 },
	{ "TB", DIM_BYTES, 1e12 },
	{ "B", DIM_BYTES, 1 },
	{ "K", DIM_BYTES, 0x1p10 }, /* as everywhere in hiwater (units_parse_bytes) */
	{ "M", DIM_BYTES, 0x1p20 },
	{ "G", DIM_BYTES, 0x1p30 },
	{ "T", DIM_BYTES, 0x1p40 },
	{ "ns", DIM_TIME, 1 },
	{ "us", DIM_TIME, 1e3 },
	{ "ms", DIM_TIME, 1e6 },
	{ "s", DIM_TIME, 1e9 },
	{ "sec", DIM_TIME, 1e9 },
	{ "min", DIM_TIME, 60e9 },
	{ "m", DIM_TIME, 60e9 },
	{ "h", DIM_TIME, 3600e9 },
	{ "d", DIM_TIME, 86400e9 },
	{ "J", DIM_ENERGY, 1e6 },
	{ "kJ", DIM_ENERGY, 1e9 },
	{ "Wh", DIM_ENERGY, 3600e6 },
	{ "kWh", DIM_ENERGY, 3600e9 },
	{ "W", DIM_POWER, 1e6 },
	{ "mW", DIM_POWER, 1e3 },
	{ "kW", DIM_POWER, 1e9 },
	{ "C", DIM_HEAT, 1e3 },
	{ "Hz", DIM_FREQUENCY, 1 },
	{ "kHz", DIM_FREQUENCY, 1e3 },
	{ "MHz", DIM_FREQUENCY, 1e6 },
	{ "GHz", DIM_FREQUENCY, 1e9 },
	{ "cores", DIM_CORES, 1 },
	{ "core", DIM_CORES, 1 },
};

static size_t letters(const char *s)
{
	size_t n = 0;

	while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z'))
		n++;
	return n;
}

static bool parse_unit(const char **p, enum rule_dim *dim, double *size)
{
	const size_t len = letters(*p);

	if (parse_word(p, "%")) {
		*dim = DIM_PERCENT;
		*size = 1;
		return true;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) != len || strncmp(units[i].name, *p, len) != 0)
			continue;
		*p += len;
		*dim = units[i].dim;
		*size = units[i].size;
		return true;
	}
	return false;
}

bool rule_unit(const char **p, struct rule_number *number)
{
	const char *s = *p;
	enum rule_dim dim, per;
	double size;

	if (parse_unit(&s, &dim, &size)) {
		number->dim = dim;
		number->value *= size;
		*p = s;
	}
	if (!parse_word(&s, "/"))
		return *p == s;
	if (!parse_unit(&s, &per, &size) || per != DIM_TIME)
		return false;
	number->per_ns = (uint64_t) size;
	number->value /= size / 1e9;
	*p = s;
	return true;
}

const char *rule_time_name(uint64_t ns)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].dim == DIM_TIME && (uint64_t) units[i].size == ns)
			return units[i].name;
	}
	return "";
}

/* Units of metrics, and how amounts of them are written. */
static const struct {
	enum rule_dim dim;
	double size;          /* in the metric's unit, of one of the dimension's base unit */
	double bare;          /* in the metric's unit, of a number without unit */
	const char *example;
} amounts[] = {
	[UNIT_BYTES] = { DIM_BYTES, 1, 1, "24GiB or 500MB" },
	[UNIT_NS] = { DIM_TIME, 1, 1e9, "90s or 10m" },
	[UNIT_COUNT] = { DIM_BARE, 1, 1, "100" },
	[UNIT_PPM] = { DIM_BARE, 1e6, 1e6, "90% or 0.9" },
	[UNIT_UJ] = { DIM_ENERGY, 1, 1e6, "500kJ" },
	[UNIT_UW] = { DIM_POWER, 1, 1e6, "300W" },
	[UNIT_MCEL] = { DIM_HEAT, 1, 1e3, "85C" },
	[UNIT_HZ] = { DIM_FREQUENCY, 1, 1, "1.2GHz" },
};

static enum rule_whole whole_of(const struct rule_name *name)
{
	const struct metric_info *m = name->metric >= 0 ? &metrics[name->metric] : NULL;

	if (!m || name->what != RULE_METRIC)
		return WHOLE_NONE;
	if (name->also >= 0)
		return WHOLE_CORES;
	if (m->unit != UNIT_BYTES || m->kind == KIND_COUNTER)
		return WHOLE_NONE;
	if (m->entity == ENTITY_HOST)
		return strncmp(m->name, "mem_", 4) == 0 ? WHOLE_CAPACITY : WHOLE_NONE;
	return m->entity == ENTITY_GPU || m->entity == ENTITY_GPU_PROCESS ? WHOLE_GPU : WHOLE_RAM;
}

/* The mean of a counter is its mean rate. */
static bool is_mean_of_counter(const struct rule_name *name)
{
	return name->what == RULE_METRIC && name->part == PART_MEAN &&
	       metrics[name->metric].kind == KIND_COUNTER;
}

/* Sets a percentage of some amount, or a ratio. */
static int percentage(
	struct rule_term *term, const struct rule_number *number, enum rule_kind kind, struct rule_why *why)
{
	const struct rule_name *name = &term->name;
	const bool is_time = name->what == RULE_METRIC && metrics[name->metric].unit == UNIT_NS;
	const bool is_ratio = name->what == RULE_METRIC && metrics[name->metric].unit == UNIT_PPM;
	char text[RULE_NAME];

	if (kind == RULE_COMPARE && term->test == TEST_COMPARE) {
		term->rate = is_mean_of_counter(name);
		term->whole = WHOLE_BASE;
		term->value += number->has_sign ? 100 : 0;
		return 0;
	}
	if (is_ratio || name->what == RULE_SERIES) {
		term->value *= is_ratio ? 1e4 : 1e-2;
		return 0;
	}
	term->whole = whole_of(name);
	term->rate = is_time;
	if (term->whole == WHOLE_CORES && term->value > 100)
		return rule_refuse(why,
			"100%% is all CPUs that the job may use, so this never holds; write it as %g cores",
			term->value / 100);
	if (term->whole == WHOLE_NONE && is_time)
		term->value *= 1e7; /* of elapsed time */
	else if (term->whole == WHOLE_NONE)
		return rule_refuse(why,
			"'%s' has no limit or capacity to take a percentage of; give an amount",
			rule_name_text(name, text));
	return 0;
}

/* Refuses numbers without a unit that are probably mistakes. */
static int plain_number(
	const struct rule_term *term, enum unit unit, enum rule_kind kind, struct rule_why *why)
{
	const bool is_load = term->name.what == RULE_METRIC && term->name.metric == M_HOST_LOAD1;
	/* "gpu.mem > 95" does not mean 95 bytes; 1 byte, or numbers above 100, may come from a
	 * program. */
	const bool is_percent = term->value > 1 && term->value <= 100 && kind != RULE_FILTER &&
				whole_of(&term->name) != WHOLE_NONE;
	char percents[24] = "";

	if (is_percent)
		(void) snprintf(percents, sizeof(percents), " or %g%%", term->value);
	if (unit == UNIT_BYTES && (kind == RULE_LIMIT || is_percent))
		return rule_refuse(why, "missing unit; write it as %gGiB%s, or %gB for bytes", term->value,
			percents, term->value);
	if (unit == UNIT_PPM && term->value > 1 && !is_load)
		return rule_refuse(why, "a ratio is between 0 and 1; write it as %g%% or %g", term->value,
			term->value / 100);
	return 0;
}

static int metric_amount(
	struct rule_term *term, const struct rule_number *number, enum rule_kind kind, struct rule_why *why)
{
	const enum unit unit = term->name.what == RULE_METRIC ? metrics[term->name.metric].unit : UNIT_NS;
	const bool is_cpu = term->name.also >= 0,
		   is_counter = term->name.what == RULE_METRIC &&
				metrics[term->name.metric].kind == KIND_COUNTER;
	char text[RULE_NAME];

	term->rate = is_counter && number->per_ns;
	if (unit == UNIT_NS && is_counter &&
		(number->dim == DIM_CORES || (is_cpu && number->dim == DIM_BARE))) {
		term->value *= 1e9;
		term->rate = true;
	} else if (unit == UNIT_UJ && number->dim == DIM_POWER) {
		term->rate = true;
	} else if (number->dim == DIM_BARE) {
		if (plain_number(term, unit, kind, why) < 0)
			return -EINVAL;
		term->value *= amounts[unit].bare;
	} else if (number->dim == amounts[unit].dim) {
		term->value *= amounts[unit].size;
	} else {
		return rule_refuse(why, "wrong unit for '%s'; write it as %s",
			rule_name_text(&term->name, text),
			is_cpu ? "3.5 cores or 90%" : amounts[unit].example);
	}
	if (number->per_ns && !is_counter && term->test != TEST_GROWTH)
		return rule_refuse(why, "'%s' is a level, not a rate; for its growth, write growth(%s)",
			rule_name_text(&term->name, text), text);
	return 0;
}

static int number_exit(const struct rule_number *number, struct rule_why *why)
{
	return number->dim == DIM_BARE ? 0 : rule_refuse(why, "expected an exit status, such as 0 or 137");
}

static int number_field(struct rule_term *term, const struct rule_number *number, struct rule_why *why)
{
	char text[RULE_NAME];

	if (term->name.field == FIELD_NAME || term->name.field == FIELD_COMMAND)
		return rule_refuse(
			why, "'%s' is a text; write %s ~ PATTERN", rule_name_text(&term->name, text), text);
	return number->dim == DIM_BARE ? 0 : rule_refuse(why, "expected a plain number");
}

int rule_amount(
	struct rule_term *term, const struct rule_number *number, enum rule_kind kind, struct rule_why *why)
{
	term->value = number->value;
	term->whole = WHOLE_NONE;
	term->per_ns = number->per_ns;
	if (term->test == TEST_GROWTH && !number->per_ns)
		return rule_refuse(why, "growth needs a rate; write it as 10MiB/min");
	if (number->has_sign && kind == RULE_COMPARE && number->dim != DIM_PERCENT)
		return rule_refuse(why, "only a percentage can be relative; write it as +5%%");
	if (number->has_sign && kind != RULE_COMPARE &&
		(number->dim == DIM_PERCENT || (number->value > 0 && term->name.what != RULE_SERIES)))
		return rule_refuse(why, "a sign is for compare --fail-if only; remove it");
	if (kind == RULE_LIMIT && number->value <= 0)
		return rule_refuse(why, "a limit must be above 0");
	if (term->name.what == RULE_FIELD)
		return number_field(term, number, why);
	if (term->name.what == RULE_EXIT)
		return number_exit(number, why);
	if (number->dim == DIM_PERCENT)
		return percentage(term, number, kind, why);
	return term->name.what == RULE_SERIES ? 0 : metric_amount(term, number, kind, why);
}

int rule_of(struct rule_term *term, enum rule_whole whole, struct rule_why *why)
{
	const bool is_gpu = whole_of(&term->name) == WHOLE_GPU;
	char text[RULE_NAME];

	if (term->whole == WHOLE_NONE)
		return rule_refuse(why, "only a percentage can be of limit or of capacity");
	if (term->whole == WHOLE_BASE)
		return rule_refuse(why, "a percentage in compare is of the base run's figure; remove of %s",
			whole == WHOLE_LIMIT ? "limit" : "capacity");
	if (whole_of(&term->name) != WHOLE_RAM && whole_of(&term->name) != WHOLE_CAPACITY && !is_gpu)
		return rule_refuse(why, "'%s' has no such limit", rule_name_text(&term->name, text));
	if (is_gpu && whole == WHOLE_LIMIT)
		return rule_refuse(why, "GPU memory has no limit; write of capacity, or leave it out");
	term->whole = is_gpu ? WHOLE_GPU : whole;
	return 0;
}
