// SPDX-License-Identifier: MIT
#include "fake.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAU 6.28318530717958647692

bool fake_expanded(const char *text, char *ret, size_t size)
{
	size_t len = text[0] == '$' ? strcspn(text + 1, "/") : 0;
	char name[64];
	const char *value;

	if (text[0] != '$') {
		snprintf(ret, size, "%s", text);
		return true;
	}
	snprintf(name, sizeof(name), "%.*s", (int) len, text + 1);
	value = getenv(name);
	if (value)
		snprintf(ret, size, "%s%s", value, text + 1 + len);
	return value != NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "1.5Gi": a number with an optional unit, followed only by end. */
static bool number_parse(const char *text, char end, const char **ret_next, double *ret)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {
		{ "Ki", 0x1p10 },
		{ "Mi", 0x1p20 },
		{ "Gi", 0x1p30 },
		{ "Ti", 0x1p40 },
		{ "k", 1e3 },
		{ "M", 1e6 },
		{ "G", 1e9 },
		{ "T", 1e12 },
	};
	char *p;
	double x = strtod(text, &p);

	if (p == text)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);
		if (strncmp(p, units[i].name, len) == 0) {
			x *= units[i].factor;
			p += len;
			break;
		}
	}
	if (*p != end && *p != '\0' && !isspace((unsigned char) *p))
		return false;
	*ret_next = p;
	*ret = x;
	return true;
}

/* A single value: a number, nan, absent, unknown, error15. */
static bool point_parse(const char *word, struct fake_point *ret)
{
	const char *end;

	if (strcmp(word, "absent") == 0) {
		ret->code = 3; /* NOT_SUPPORTED */
	} else if (strcmp(word, "unknown") == 0) {
		ret->code = FAKE_UNKNOWN;
	} else if (strncmp(word, "error", 5) == 0) {
		ret->code = (int) strtol(word + 5, NULL, 10);
		return ret->code > 0;
	} else {
		return number_parse(word, '\0', &end, &ret->v) && *end == '\0';
	}
	return true;
}

static void point_add(struct fake_value *v, struct fake_point point)
{
	v->points = realloc(v->points, (v->n + 1) * sizeof(*v->points));
	if (!v->points)
		fake_die("out of memory");
	v->points[v->n++] = point;
}

/* "0:10 5:90 7.5:absent": each value from its time on; the first also before that. */
static const char *steps_parse(char *words[], size_t n, struct fake_value *ret)
{
	for (size_t i = 0; i < n; i++) {
		char *colon = strchr(words[i], ':');
		struct fake_point point = { 0 };

		if (!colon)
			return "a step is TIME:VALUE";
		*colon = '\0';
		point.t = strtod(words[i], NULL);
		if (!point_parse(colon + 1, &point))
			return "a step's value is a number, nan, absent, unknown or errorN";
		if (ret->n > 0 && ret->points[ret->n - 1].t >= point.t)
			return "steps are in order of time";
		point_add(ret, point);
	}
	return ret->n > 0 ? NULL : "no steps";
}

/* "ramp FROM TO START..END" */
static const char *ramp_parse(char *words[], struct fake_value *ret)
{
	const char *p;
	char *dots = strstr(words[2], "..");

	if (!dots || !number_parse(words[0], '\0', &p, &ret->a) || !number_parse(words[1], '\0', &p, &ret->b))
		return "a ramp is: ramp FROM TO START..END";
	ret->c = strtod(words[2], NULL);
	ret->d = strtod(dots + 2, NULL);
	return ret->d > ret->c ? NULL : "a ramp ends after its start";
}

static const char *numbers_parse(char *words[], size_t n, double *ret[], size_t least)
{
	const char *p;

	if (n < least)
		return "too few numbers";
	for (size_t i = 0; i < n; i++) {
		if (!number_parse(words[i], '\0', &p, ret[i]))
			return "not a number";
	}
	return NULL;
}

static const char *words_parse(char *words[], size_t n, struct fake_value *ret)
{
	static const struct {
		const char *name;
		enum fake_kind kind;
		size_t least, most;
	} kinds[] = {
		{ "steps", FAKE_STEPS, 1, SIZE_MAX },
		{ "ramp", FAKE_RAMP, 3, 3 },
		{ "sine", FAKE_SINE, 3, 3 },
		{ "square", FAKE_SQUARE, 3, 4 },
		{ "rate", FAKE_RATE, 1, 2 },
		{ "integral", FAKE_INTEGRAL, 1, 2 },
		{ "processes", FAKE_PROCESSES, 0, 1 },
		{ "file", FAKE_FILE, 1, 2 },
	};
	double *numbers[] = { &ret->a, &ret->b, &ret->c, &ret->d };
	size_t given = n - 1, i = 0;

	while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].name, words[0]) != 0)
		i++;
	if (i == sizeof(kinds) / sizeof(kinds[0])) {
		struct fake_point point = { 0 };
		if (n != 1 || !point_parse(words[0], &point))
			return "not a value";
		point_add(ret, point);
		return NULL;
	}
	if (given < kinds[i].least || given > kinds[i].most)
		return "too few or too many words for this kind of value";
	ret->kind = kinds[i].kind;
	if (ret->kind == FAKE_STEPS)
		return steps_parse(words + 1, given, ret);
	if (ret->kind == FAKE_RAMP)
		return ramp_parse(words + 1, ret);
	if (ret->kind == FAKE_INTEGRAL || ret->kind == FAKE_FILE) {
		ret->of = strdup(words[1]);
		return numbers_parse(words + 2, given - 1, numbers, 0);
	}
	ret->d = 0.5;
	return numbers_parse(words + 1, given, numbers, kinds[i].least);
}

const char *fake_value_parse(const char *text, struct fake_value *ret)
{
	char *copy = strdup(text), *save = NULL, **words = calloc(strlen(text) + 1, sizeof(*words));
	const char *wrong = "empty";
	size_t n = 0;

	if (!copy || !words)
		fake_die("out of memory");
	for (char *word = strtok_r(copy, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
		words[n++] = word;
	if (n > 0)
		wrong = words_parse(words, n, ret);
	free(words);
	free(copy);
	return wrong;
}

/* ---- time ------------------------------------------------------------------------------------ */

static const struct fake_point *point_at(const struct fake_value *v, double t)
{
	size_t low = 0, high = v->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (v->points[middle].t <= t)
			low = middle;
		else
			high = middle;
	}
	return &v->points[low];
}

/* The number in the file, or the default if the file is missing. */
static double file_value(const struct fake_value *v)
{
	char path[4096];
	double value = v->a;
	FILE *file = fake_expanded(v->of, path, sizeof(path)) ? fopen(path, "re") : NULL;

	if (file && fscanf(file, "%lf", &value) != 1)
		value = v->a;
	if (file)
		fclose(file);
	return value;
}

int fake_value_at(const struct fake_value *v, double t, double *ret)
{
	const struct fake_point *point;

	switch (v->kind) {
	case FAKE_STEPS:
		point = point_at(v, t);
		if (point->code == 0)
			*ret = point->v;
		return point->code;
	case FAKE_RAMP:
		*ret = v->a + (v->b - v->a) * (fmin(fmax(t, v->c), v->d) - v->c) / (v->d - v->c);
		return 0;
	case FAKE_SINE:
		*ret = v->a + v->b * sin(TAU * t / v->c);
		return 0;
	case FAKE_SQUARE:
		*ret = fmod(t, v->c) < v->c * v->d ? v->b : v->a;
		return 0;
	case FAKE_RATE:
		*ret = v->b + v->a * t;
		return 0;
	case FAKE_FILE:
		*ret = file_value(v);
		return 0;
	case FAKE_INTEGRAL:
	case FAKE_PROCESSES:
		break;
	}
	return 3; /* resolved by the caller, who knows the device */
}

static double steps_integral(const struct fake_value *v, double t)
{
	double sum = 0;

	for (size_t i = 0; i < v->n; i++) {
		double from = i == 0 ? 0 : fmax(v->points[i].t, 0);
		double until = i + 1 < v->n ? fmin(v->points[i + 1].t, t) : t;
		if (until > from && v->points[i].code == 0)
			sum += v->points[i].v * (until - from);
	}
	return sum;
}

static double ramp_integral(const struct fake_value *v, double t)
{
	double inside = fmin(fmax(t, v->c), v->d) - v->c, slope = (v->b - v->a) / (v->d - v->c);

	return v->a * fmin(t, v->c) + (v->a + slope * inside / 2) * inside + v->b * fmax(t - v->d, 0);
}

double fake_value_integral(const struct fake_value *v, double t)
{
	switch (v->kind) {
	case FAKE_STEPS:
		return steps_integral(v, t);
	case FAKE_RAMP:
		return ramp_integral(v, t);
	case FAKE_SINE:
		return v->a * t + v->b * v->c / TAU * (1 - cos(TAU * t / v->c));
	case FAKE_SQUARE:
		return v->a * t +
		       (v->b - v->a) * (floor(t / v->c) * v->c * v->d + fmin(fmod(t, v->c), v->c * v->d));
	case FAKE_RATE:
		return v->b * t + v->a * t * t / 2;
	case FAKE_FILE: /* as if constant */
		return file_value(v) * t;
	case FAKE_INTEGRAL:
	case FAKE_PROCESSES:
		break;
	}
	return NAN;
}
