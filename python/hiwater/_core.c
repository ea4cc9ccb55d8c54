/* SPDX-License-Identifier: MIT
 *
 * hiwater._core: the package's only bridge to C, on the limited API of CPython 3.9. It wraps
 * functions of hiwater.h and api/internal.h in Python objects; _core.pyi has their types and
 * meaning. meson.build defines Py_LIMITED_API.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "_core_columns.h"
#include "_core_spawn.h"

enum {
	KINDS = sizeof(((struct hwi_push_stats *) 0)->counts) /
		sizeof(((struct hwi_push_stats *) 0)->counts[0]),
};

/* A list of pushes. */
struct list {
	PyObject_HEAD struct hwi_pushes *pushes;
	Py_ssize_t n_series;
	int whole;              /* values are integers */
};

static void *raise_error(int code, const struct hiw_err *err)
{
	if (code == -ENOMEM)
		return PyErr_NoMemory();
	PyErr_SetString(PyExc_ValueError, *err->text ? err->text : strerror(-code));
	return NULL;
}

/* ---- arguments ----------------------------------------------------------------------------------------------------- */

/* A list or a tuple, which keeps its items alive. False: an error is set. */
static bool is_list(PyObject *object)
{
	if (PyList_Check(object) || PyTuple_Check(object))
		return true;
	PyErr_SetString(PyExc_TypeError, "expected a list or a tuple");
	return false;
}

/* The texts of a list or tuple, borrowed from it, in an array that the caller frees with
 * PyMem_Free. NULL: an error is set. */
static const char **texts_of(PyObject *sequence, Py_ssize_t *ret_n)
{
	const Py_ssize_t n = is_list(sequence) ? PySequence_Size(sequence) : -1;
	const char **texts = n < 0 ? NULL : PyMem_Calloc((size_t) n + 1, sizeof(*texts));

	if (!texts)
		return n < 0 ? NULL : (const char **) PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);

		const bool ok = item && PyArg_Parse(item, "s", &texts[i]);

		Py_XDECREF(item); /* the sequence keeps a reference */
		if (!ok) {
			PyMem_Free(texts);
			return NULL;
		}
	}
	*ret_n = n;
	return texts;
}

/* NaN for None. False: an error is set. */
static bool number_of(PyObject *object, double *ret)
{
	*ret = object == Py_None ? (double) NAN : PyFloat_AsDouble(object);
	return !PyErr_Occurred();
}

static bool ratios_of(PyObject *sequence, struct hwi_push_ratio *ratios, size_t *ret_n)
{
	const Py_ssize_t n = is_list(sequence) ? PySequence_Size(sequence) : -1;

	if (n < 0)
		return false;
	if (n > HWI_PUSH_RATIOS) {
		PyErr_Format(PyExc_ValueError, "there are more than %d ratios", HWI_PUSH_RATIOS);
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);
		const bool ok = item &&
				PyArg_ParseTuple(item, "sII", &ratios[i].name, &ratios[i].of, &ratios[i].by);

		Py_XDECREF(item);
		if (!ok)
			return false;
	}
	*ret_n = (size_t) n;
	return true;
}

/* ---- making and freeing a list ------------------------------------------------------------------------------------- */

static PyObject *list_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char series_name[] = "series", max_name[] = "max_events", ratios_name[] = "ratios",
		    changes_name[] = "changes", samples_name[] = "samples", every_name[] = "every",
		    whole_name[] = "whole";
	static char *names[] = { series_name, max_name, ratios_name, changes_name, samples_name, every_name,
		whole_name, NULL };
	const allocfunc alloc = (allocfunc) PyType_GetSlot(type, Py_tp_alloc);
	struct hwi_push_ratio ratios[HWI_PUSH_RATIOS];
	struct hwi_pushes_options options = { .size = sizeof(options), .ratios = ratios };
	struct hiw_err err = { "" };
	PyObject *series, *ratios_given = NULL;
	Py_ssize_t max_events, n_series;
	int changes = 0, samples = 0, every = 0, whole = 0, r;
	struct list *self;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "On|$Opppp", names, &series, &max_events,
		    &ratios_given, &changes, &samples, &every, &whole))
		return NULL;
	if (ratios_given && !ratios_of(ratios_given, ratios, &options.n_ratios))
		return NULL;
	const char **texts = texts_of(series, &n_series);

	if (!texts)
		return NULL;
	options.series = texts;
	options.n_series = (size_t) n_series;
	options.max_events = max_events < 0 ? 0 : (size_t) max_events;
	options.changes = changes;
	options.samples = samples;
	options.every = every;
	self = (struct list *) alloc(type, 0);
	r = self ? hwi_pushes_new(&options, &self->pushes, &err) : 0;
	PyMem_Free(texts);
	if (!self || r < 0) {
		Py_XDECREF((PyObject *) self);
		return self ? raise_error(r, &err) : NULL;
	}
	self->n_series = n_series;
	self->whole = whole;
	return (PyObject *) self;
}

static void list_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	const freefunc tp_free = (freefunc) PyType_GetSlot(type, Py_tp_free);

	hwi_pushes_free(((struct list *) object)->pushes);
	tp_free(object);
	Py_DECREF((PyObject *) type);
}

static struct hwi_pushes *pushes_of(PyObject *object)
{
	return ((struct list *) object)->pushes;
}

/* ---- pushing ------------------------------------------------------------------------------------------------------- */

/* The values of a sample, one per series. False: an error is set. */
static bool sample_of(const struct list *self, PyObject *given, double values[HWI_PUSH_SERIES])
{
	if (PySequence_Size(given) != self->n_series) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_ValueError, "a sample must have %zd values, one per series",
				self->n_series);
		return false;
	}
	for (Py_ssize_t i = 0; i < self->n_series; i++) {
		PyObject *item = PySequence_GetItem(given, i);
		const bool ok = item && number_of(item, &values[i]);

		Py_XDECREF(item);
		if (!ok)
			return false;
	}
	return true;
}

/* Arguments: a sample, and optionally the high-water mark of its first series. False: an error is
 * set. */
static bool marked_sample_of(
	const struct list *self, PyObject *args, double values[HWI_PUSH_SERIES], double *ret_mark)
{
	PyObject *given, *mark = Py_None;

	return PyArg_ParseTuple(args, "O|O", &given, &mark) && number_of(mark, ret_mark) &&
	       sample_of(self, given, values);
}

static PyObject *list_push(PyObject *object, PyObject *args)
{
	const struct list *self = (const struct list *) object;
	double values[HWI_PUSH_SERIES], mark;
	struct hwi_push_result made;

	if (!marked_sample_of(self, args, values, &mark))
		return NULL;
	hwi_pushes_push(self->pushes, values, mark, &made);
	return Py_BuildValue("KI", (unsigned long long) made.first, (unsigned) made.rules);
}

static PyObject *list_note(PyObject *object, PyObject *args)
{
	const struct list *self = (const struct list *) object;
	double values[HWI_PUSH_SERIES];
	PyObject *given = Py_None;
	unsigned kind, tag = 0;
	const char *text = NULL;
	int r;

	if (!PyArg_ParseTuple(args, "I|zOI", &kind, &text, &given, &tag))
		return NULL;
	if (given != Py_None && !sample_of(self, given, values))
		return NULL;
	r = hwi_pushes_note(self->pushes, kind, tag, text, given == Py_None ? NULL : values);
	if (r < 0)
		return raise_error(r, &(struct hiw_err) { "the kind of a note must be 8 to 31" });
	Py_RETURN_NONE;
}

static PyObject *list_rules(PyObject *object, PyObject *given)
{
	struct hiw_err err = { "" };
	Py_ssize_t n;
	const char **texts = texts_of(given, &n);
	int r;

	if (!texts)
		return NULL;
	r = hwi_pushes_rules(pushes_of(object), texts, (size_t) n, &err);
	PyMem_Free(texts);
	if (r < 0)
		return raise_error(r, &err);
	Py_RETURN_NONE;
}

static PyObject *list_begin(PyObject *object, PyObject *args)
{
	const struct list *self = (const struct list *) object;
	double values[HWI_PUSH_SERIES], mark;

	if (!marked_sample_of(self, args, values, &mark))
		return NULL;
	hwi_pushes_begin(self->pushes, values, mark);
	Py_RETURN_NONE;
}

static PyObject *list_end(PyObject *object, PyObject *unused)
{
	(void) unused;
	hwi_pushes_end(pushes_of(object));
	Py_RETURN_NONE;
}

static PyObject *list_clear(PyObject *object, PyObject *unused)
{
	(void) unused;
	hwi_pushes_clear(pushes_of(object));
	Py_RETURN_NONE;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

static PyObject *object_of(double value, bool whole)
{
	if (isnan(value)) {
		Py_INCREF(Py_None);
		return Py_None;
	}
	return whole ? PyLong_FromDouble(value) : PyFloat_FromDouble(value);
}

static PyObject *values_of(const struct list *self, const double *values)
{
	PyObject *tuple = PyTuple_New(self->n_series);

	for (Py_ssize_t i = 0; tuple && i < self->n_series; i++) {
		PyObject *value = object_of(values[i], self->whole);

		if (!value || PyTuple_SetItem(tuple, i, value) < 0) {
			Py_DECREF(tuple);
			return NULL;
		}
	}
	return tuple;
}

static PyObject *event_of(const struct list *self, const struct hwi_push_event *e)
{
	PyObject *values = values_of(self, e->values), *change = object_of(e->change, self->whole), *text;

	text = *e->text ? PyUnicode_DecodeUTF8(e->text, (Py_ssize_t) strlen(e->text), "replace")
			: Py_BuildValue("");
	if (!values || !change || !text) {
		Py_XDECREF(values);
		Py_XDECREF(change);
		Py_XDECREF(text);
		return NULL;
	}
	return Py_BuildValue("KIIiINNN", (unsigned long long) e->time_ns, e->kind, e->rule, (int) e->level,
		(unsigned) e->tag, change, values, text);
}

/* A list of tuples. Frees events. */
static PyObject *events_of(const struct list *self, struct hwi_push_event *events, size_t n)
{
	PyObject *made = PyList_New((Py_ssize_t) n);

	for (size_t i = 0; made && i < n; i++) {
		PyObject *event = event_of(self, &events[i]);

		if (!event || PyList_SetItem(made, (Py_ssize_t) i, event) < 0) {
			Py_CLEAR(made);
			break;
		}
	}
	free(events);
	return made;
}

static PyObject *list_read(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char kinds_name[] = "kinds", since_name[] = "since_ns", first_name[] = "first",
		    last_name[] = "last";
	static char *names[] = { kinds_name, since_name, first_name, last_name, NULL };
	unsigned kinds = 0;
	unsigned long long since = 0, first = 0, last = 0;
	struct hwi_push_filter filter;
	struct hwi_push_event *events;
	size_t n;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|IKKK", names, &kinds, &since, &first, &last))
		return NULL;
	filter = (struct hwi_push_filter) {
		.kinds = kinds, .since_ns = since, .from = first, .last = (size_t) last
	};
	r = hwi_pushes_read(pushes_of(object), &filter, &events, &n);
	return r < 0 ? PyErr_NoMemory() : events_of((const struct list *) object, events, n);
}

static PyObject *list_timeline(PyObject *object, PyObject *args)
{
	unsigned long long interval;
	struct hwi_push_event *events;
	size_t n;
	int r;

	if (!PyArg_ParseTuple(args, "K", &interval))
		return NULL;
	r = hwi_pushes_timeline(pushes_of(object), interval, &events, &n);
	if (r < 0)
		return raise_error(r, &(struct hiw_err) { "the interval must be longer than 0" });
	return events_of((const struct list *) object, events, n);
}

static PyObject *list_stats(PyObject *object, PyObject *unused)
{
	const struct list *self = (const struct list *) object;
	struct hwi_push_stats s = { .size = sizeof(s) };
	PyObject *counts = PyTuple_New(KINDS), *peaks;

	(void) unused;
	hwi_pushes_stats(self->pushes, &s);
	for (Py_ssize_t i = 0; counts && i < KINDS; i++) {
		PyObject *count = PyLong_FromUnsignedLongLong(s.counts[i]);

		if (!count || PyTuple_SetItem(counts, i, count) < 0)
			Py_CLEAR(counts);
	}
	peaks = values_of(self, s.peaks);
	if (!counts || !peaks) {
		Py_XDECREF(counts);
		Py_XDECREF(peaks);
		return NULL;
	}
	return Py_BuildValue("KKNNNNdNN", (unsigned long long) s.events, (unsigned long long) s.kept, counts,
		object_of(s.risen, self->whole), object_of(s.fallen, self->whole), peaks,
		(double) s.active_ns / 1e9, object_of(s.rises_per_s, false), object_of(s.risen_per_s, false));
}

/* ---- a recording as a picture -------------------------------------------------------------------------------------- */

struct text {
	char *data;
	size_t len;
};

static int append_chunk(void *ctx, const void *data, size_t len)
{
	struct text *text = ctx;
	char *grown = realloc(text->data, text->len + len + 1);

	if (!grown)
		return -ENOMEM;
	text->data = grown;
	memcpy(grown + text->len, data, len);
	text->len += len;
	return 0;
}

/* Draws the picture and the line about the present use. Called without the GIL. */
static int draw(const char *path, struct hiw_export *request, struct text *line, struct hiw_err *err)
{
	const struct hiw_style style = { .size = sizeof(style), .width = 1000, .utf8 = true };
	struct hiw_run *run = NULL;
	int r = hiw_run_open(path, &run, err);

	if (r == 0)
		r = hiw_run_export(run, request, err);
	if (r == 0)
		r = hiw_run_text(run, HIW_PROGRESS, &style, &line->data, &line->len, err);
	hiw_run_close(run);
	return r;
}

static PyObject *core_svg(PyObject *module, PyObject *args)
{
	struct hiw_err err = { "" };
	struct text svg = { NULL, 0 }, line = { NULL, 0 };
	struct hiw_export request = {
		.size = sizeof(request), .to = "svg", .write = append_chunk, .ctx = &svg
	};
	PyObject *series, *made = NULL;
	const char *path, **names;
	Py_ssize_t n;
	int r;

	(void) module;
	if (!PyArg_ParseTuple(args, "sO", &path, &series))
		return NULL;
	names = texts_of(series, &n);
	if (!names)
		return NULL;
	request.series = names;
	request.n_series = (size_t) n;
	Py_BEGIN_ALLOW_THREADS r = draw(path, &request, &line, &err);
	Py_END_ALLOW_THREADS

		PyMem_Free(names);
	if (r < 0)
		(void) raise_error(r, &err);
	else
		made = Py_BuildValue(
			"s#s#", svg.data, (Py_ssize_t) svg.len, line.data, (Py_ssize_t) line.len);
	free(svg.data);
	free(line.data);
	return made;
}

/* ---- the module ---------------------------------------------------------------------------------------------------- */

#define WITH_KEYWORDS(function) ((PyCFunction) (void (*)(void))(function))

static PyMethodDef list_methods[] = {
	{ "push", list_push, METH_VARARGS, NULL },
	{ "note", list_note, METH_VARARGS, NULL },
	{ "rules", list_rules, METH_O, NULL },
	{ "begin", list_begin, METH_VARARGS, NULL },
	{ "end", list_end, METH_NOARGS, NULL },
	{ "clear", list_clear, METH_NOARGS, NULL },
	{ "read", WITH_KEYWORDS(list_read), METH_VARARGS | METH_KEYWORDS, NULL },
	{ "timeline", list_timeline, METH_VARARGS, NULL },
	{ "stats", list_stats, METH_NOARGS, NULL },
	{ 0 },
};

static PyType_Slot list_slots[] = {
	{ Py_tp_new, (void *) (uintptr_t) list_new },
	{ Py_tp_dealloc, (void *) (uintptr_t) list_dealloc },
	{ Py_tp_methods, list_methods },
	{ 0 },
};

static PyType_Spec list_spec = {
	.name = "hiwater._core.Pushes",
	.basicsize = sizeof(struct list),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = list_slots,
};

static int fill_module(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&list_spec);

	if (!type || PyModule_AddObject(module, "Pushes", type) < 0) {
		Py_XDECREF(type);
		return -1;
	}
	return PyModule_AddIntConstant(module, "CAN_STAY", CORE_CAN_STAY);
}

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, (void *) (uintptr_t) fill_module },
	{ 0 },
};

static PyMethodDef module_methods[] = {
	{ "svg", core_svg, METH_VARARGS, NULL },
	{ "columns", core_columns, METH_VARARGS, NULL },
	{ "spawn", core_spawn, METH_VARARGS, NULL },
	{ "reap", core_reap, METH_VARARGS, NULL },
	{ 0 },
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "hiwater._core",
	.m_methods = module_methods,
	.m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&module_def);
}
