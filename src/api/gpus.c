/* SPDX-License-Identifier: MIT
 *
 * The internal interface: the GPUs of this machine, read once or repeatedly.
 */
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mask.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "gpu/gpu.h"
#include "sink/gpus/gpus_sink.h"
#include "source/nvidia/cuda/order.h"
#include "summary/gpus_now.h"

enum {
	COMMAND_MOST = 4096,
	DEVICES_MOST = 512,
};

struct hwi_gpus {
	struct root root;
	struct source_env env;
	struct gpus_options options;
	struct gpu_wish wish;
	struct gpu_reader *reader;
	struct gpus_now now;
	uint64_t patience_ns;
	char *what, *ids;
};

/* ---- opening --------------------------------------------------------------------------------- */

static void apply_options(struct hwi_gpus *g, const struct hwi_gpus_options *o)
{
	static const enum gpus_kind kinds[] = {
		[HWI_GPUS_TEXT] = GPUS_TEXT,
		[HWI_GPUS_JSON] = GPUS_JSON,
		[HWI_GPUS_CSV] = GPUS_CSV,
		[HWI_GPUS_CSV_PROCESSES] = GPUS_CSV_PROCESSES,
		[HWI_GPUS_LINE] = GPUS_LINE,
		[HWI_GPUS_LIST] = GPUS_LIST,
		[HWI_GPUS_QUERY] = GPUS_QUERY,
		[HWI_GPUS_QUERY_APPS] = GPUS_QUERY_APPS,
	};

	g->options = (struct gpus_options) {
		.kind = kinds[o->format],
		.spec = o->spec,
		.header = !o->no_header,
		.units = !o->no_units,
		.what = g->what,
	};
	g->patience_ns = o->patience_ns;
}

static int copy_texts(struct hwi_gpus *g, const struct hwi_gpus_options *o)
{
	g->what = strdup(o->fields ? o->fields : "");
	g->ids = o->ids ? strdup(o->ids) : NULL;
	return g->what && (g->ids || !o->ids) ? 0 : -ENOMEM;
}

static int start(struct hwi_gpus *g, const struct hwi_gpus_options *o, struct err *err)
{
	const struct gpu_vendor *vendors = gpu_vendors;
	struct gpus_needs needs;
	int r = root_open(o->root, &g->root, err);

	if (r == 0)
		r = gpus_plan(&g->options, &needs, err);
	if (r < 0)
		return r;
	g->wish = (struct gpu_wish) {
		.lists = needs.lists, .pairs = needs.pairs, .busy = needs.busy, .facts = needs.facts
	};
	g->env = (struct source_env) {
		.root = &g->root, .start_boot_ns = clock_boot_ns(), .recorder_pid = getpid()
	};
	if (!g->root.live && vendors->ops == &source_nvml && !getenv("HIWATER_NVML"))
		vendors++; /* the driver library cannot be captured */
	g->reader = gpu_reader_new(vendors, &g->env, &g->wish, err);
	return g->reader ? 0 : -ENOMEM;
}

int hwi_gpus_open(const struct hwi_gpus_options *options, struct hwi_gpus **ret, struct hiw_err *ret_err)
{
	struct hwi_gpus *g = calloc(1, sizeof(*g));
	struct err err = { "" };
	int r;

	if (!g)
		return -ENOMEM;
	r = options->size == sizeof(*options) && (unsigned) options->format <= HWI_GPUS_QUERY_APPS
		    ? copy_texts(g, options)
		    : -EINVAL;
	if (r == 0) {
		apply_options(g, options);
		r = start(g, options, &err);
	}
	if (r < 0) {
		hwi_gpus_close(g);
		return api_err(ret_err, &err, r);
	}
	*ret = g;
	return 0;
}

void hwi_gpus_close(struct hwi_gpus *g)
{
	if (!g)
		return;
	gpu_reader_free(g->reader);
	gpus_now_done(&g->now);
	root_done(&g->root);
	free(g->what);
	free(g->ids);
	free(g);
}

/* ---- names and users of the processes -------------------------------------------------------- */

static void replace(struct gpus_now *now, char **text, const char *by)
{
	char *copy = gpus_now_text(now, by);

	if (!copy)
		return;
	free(*text);
	*text = copy;
}

static void name_user(struct gpus_now *now, struct gpu_user_now *u)
{
	struct passwd entry, *found = NULL;
	char room[4096], number[24];

	if (!u->uid.known || *u->user)
		return;
	(void) snprintf(number, sizeof(number), "%lld", (long long) u->uid.value);
	if (getpwuid_r((uid_t) u->uid.value, &entry, room, sizeof(room), &found) != 0)
		found = NULL;
	replace(now, &u->user, found ? found->pw_name : number);
}

static void describe(struct hwi_gpus *g, struct gpu_user_now *u)
{
	struct gpus_now *now = &g->now;
	char path[64], block[COMMAND_MOST], command[COMMAND_MOST];
	ssize_t n;

	if (!u->pid.known || !u->uid.known || *u->command)
		return;
	(void) snprintf(path, sizeof(path), "%lld/cmdline", (long long) u->pid.value);
	n = smallfile_read(g->root.proc, path, block, sizeof(block));
	if (n <= 0)
		return;
	(void) mask_command(block, (size_t) n, command, sizeof(command));
	replace(now, &u->command, command);
	replace(now, &u->program, block);
}

/* ---- CUDA's numbers in this environment ------------------------------------------------------ */

static size_t list_devices(const struct gpus_now *now, struct cuda_device *list, size_t *places)
{
	size_t n = 0;

	for (size_t i = 0; i < now->n_gpus && n < DEVICES_MOST; i++) {
		const struct gpu_now *d = &now->gpus[i];
		const struct maybe gi = d->facts[GF_GPU_INSTANCE].number,
				   ci = d->facts[GF_COMPUTE_INSTANCE].number;

		/* CUDA does not list a lost GPU */
		if (strcmp(d->vendor, "nvidia") != 0 || d->source != FRAME_NVML || !*d->uuid)
			continue;
		places[n] = i;
		list[n++] = (struct cuda_device) {
			.uuid = d->uuid,
			.pci = d->pci,
			.name = d->name,
			.parent = d->parent,
			.is_divided = d->facts[GF_MIG].number.known && d->facts[GF_MIG].number.value,
			.instance = (unsigned) d->index.value,
			.gpu_instance = (unsigned) gi.value,
			.compute_instance = (unsigned) ci.value,
		};
	}
	return n;
}

static void number_for_cuda(struct gpus_now *now)
{
	struct cuda_device list[DEVICES_MOST];
	size_t places[DEVICES_MOST], order[DEVICES_MOST], visible[DEVICES_MOST],
		n = list_devices(now, list, places);
	ssize_t found = cuda_order(list, n, cuda_ordering_of(getenv("CUDA_DEVICE_ORDER")), order);

	for (size_t i = 0; i < n; i++) {
		now->gpus[places[i]].visible = UNKNOWN;
		now->gpus[places[i]].is_hidden = found >= 0;
	}
	if (found < 0)
		return;
	found = cuda_visible(list, n, order, (size_t) found, getenv("CUDA_VISIBLE_DEVICES"), visible);
	for (ssize_t i = 0; i < found; i++) {
		now->gpus[places[visible[i]]].visible = known(i);
		now->gpus[places[visible[i]]].is_hidden = false;
	}
}

/* ---- selecting GPUs (ids) -------------------------------------------------------------------- */

/* PCI addresses as nvidia-smi and sysfs write them: with a domain of four or eight digits, or
 * without. */
static bool is_place(const char *word, const char *pci)
{
	const size_t n = strlen(word), m = strlen(pci);

	return n >= 7 && m > 0 && strchr(word, ':') &&
	       strcasecmp(n > m ? word + (n - m) : word, n > m ? pci : pci + (m - n)) == 0 &&
	       (n <= m || strspn(word, "0") >= n - m);
}

/* "0.1", as in the table, or nvidia-smi's "0:1": a MIG instance by the number of its GPU and its
 * own. */
static bool is_part(const struct gpu_now *d, const char *word)
{
	uint64_t gpu, part;
	const char *p = word;

	if (!*d->parent || !d->number.known || !d->index.known || parse_u64(&p, &gpu) < 0 ||
		(*p != '.' && *p != ':'))
		return false;
	p++;
	return parse_u64(&p, &part) == 0 && !*p && gpu == (uint64_t) d->number.value &&
	       part == (uint64_t) d->index.value;
}

static bool is_named(const struct gpu_now *d, const char *word)
{
	uint64_t number;
	const char *p = word;

	if (strcasecmp(word, d->uuid) == 0 || is_part(d, word) || (!*d->parent && is_place(word, d->pci)))
		return true;
	return !*d->parent && parse_u64(&p, &number) == 0 && !*p && d->number.known &&
	       (uint64_t) d->number.value == number;
}

/* Selecting a GPU selects its instances too. Returns 0, or -ENODEV with text if a word matches no
 * GPU. */
static int choose(struct hwi_gpus *g, struct err *err)
{
	char *words = strdup(g->ids), *rest = words, *word;
	int r = words ? 0 : -ENOMEM;

	if (words && !words[strspn(words, ", ")])
		r = err_set(err, -ENODEV, "--id is empty; hiwater gpus -L lists the GPUs");
	for (size_t i = 0; i < g->now.n_gpus; i++)
		g->now.gpus[i].is_chosen = false;
	while (r == 0 && (word = strsep(&rest, ", "))) {
		bool any = !*word;

		for (size_t i = 0; i < g->now.n_gpus; i++) {
			struct gpu_now *d = &g->now.gpus[i];
			const struct gpu_now *parent = gpus_now_find(&g->now, d->parent);

			if (!*word || (!is_named(d, word) && !(parent && is_named(parent, word))))
				continue;
			any = d->is_chosen = true;
		}
		if (!any)
			r = err_set(err, -ENODEV, "no GPU %s found; hiwater gpus -L lists the GPUs", word);
	}
	free(words);
	return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Instances of a lost GPU that is selected are not reported separately. */
static bool is_lost(const struct gpus_now *now, const struct gpu_now *d)
{
	const struct gpu_now *parent = gpus_now_find(now, d->parent);

	return d->is_chosen && gpus_now_is_lost(now, d) && !(parent && parent->is_chosen);
}

static const char *name_lost(const struct gpu_now *d, char number[UNITS_LEN])
{
	return d->number.known || (!*d->uuid && !*d->pci) ? gpus_number(d, number) : *d->uuid ? d->uuid
											      : d->pci;
}

/* Appends a sentence about all lost GPUs to err's text. Returns -EREMOTEIO, or 0 if none is
 * lost. */
static int find_lost(const struct gpus_now *now, struct err *err)
{
	struct buf names = BUF_INIT(sizeof(err->text)), before = BUF_INIT(sizeof(err->text));
	char number[UNITS_LEN];
	size_t n = 0, named = 0;

	for (size_t i = 0; i < now->n_gpus; i++)
		n += is_lost(now, &now->gpus[i]);
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (!is_lost(now, &now->gpus[i]))
			continue;
		(void) buf_printf(&names, "%s%s", !named ? "" : named + 1 == n ? " and "
									       : ", ",
			name_lost(&now->gpus[i], number));
		named++;
	}
	(void) buf_printf(&before, "%s%s", err->text, *err->text ? "; " : "");
	const int r = n ? err_set(err, -EREMOTEIO, "%sGPU%s %s %s lost", before.data, n > 1 ? "s" : "",
				  names.data, n > 1 ? "are" : "is")
			: 0;

	buf_done(&names);
	buf_done(&before);
	return r;
}

int hwi_gpus_read(struct hwi_gpus *g, struct hiw_err *ret_err)
{
	struct err err = { "" }, why = { "" };
	char host[256];
	int r = gpu_reader_read(g->reader, g->patience_ns, &g->now, &err), chosen = 0;

	if (!g->now.host && gethostname(host, sizeof(host)) == 0) {
		host[sizeof(host) - 1] = '\0';
		g->now.host = strdup(host);
	}
	number_for_cuda(&g->now);
	for (size_t i = 0; i < g->now.n_users; i++) {
		name_user(&g->now, &g->now.users[i]);
		describe(g, &g->now.users[i]);
	}
	if (g->ids && r != -ENODEV && r != -ENXIO && r != -ENOMEM)
		chosen = choose(g, &why);
	if (chosen == -ENODEV)
		gpus_now_sample_note(&g->now, why.text);
	if (r == 0 && chosen < 0)
		r = err_set(&err, chosen, "%s", why.text);
	for (size_t i = 0; i < g->now.n_notes; i++)
		g->now.notes[i].is_warned |= strcmp(g->now.notes[i].why, err.text) == 0;
	const int lost = find_lost(&g->now, &err);

	if (r == 0)
		r = lost;
	return api_err(ret_err, &err, r);
}

/* ---- warnings for formats without notes ------------------------------------------------------ */

/* Is the note about all devices, or about a selected one? */
static bool is_of_chosen(const struct hwi_gpus *g, const struct gpu_note_now *note)
{
	for (size_t i = 0; i < g->now.n_gpus; i++) {
		if (g->now.gpus[i].id == note->gpu)
			return g->now.gpus[i].is_chosen;
	}
	return !g->ids;
}

/* Does the note explain missing rows or figures of the format? A missing device concerns all
 * formats without notes, a missing figure those that have all figures, missing processes those that
 * list processes. */
static bool explains(const struct hwi_gpus *g, const struct gpu_note_now *note)
{
	static const struct {
		bool has_notes, of_processes, of_figures;
	} kinds[] = {
		[GPUS_TEXT] = { .has_notes = true },
		[GPUS_JSON] = { .has_notes = true },
		[GPUS_CSV_PROCESSES] = { .of_processes = true },
		[GPUS_QUERY_APPS] = { .of_processes = true },
		[GPUS_CSV] = { .of_figures = true },
		[GPUS_LINE] = { 0 },
		[GPUS_LIST] = { 0 },
		[GPUS_QUERY] = { 0 },
	};
	const bool of_device = strcmp(note->about, "gpu") == 0;

	if (kinds[g->options.kind].has_notes || !is_of_chosen(g, note))
		return false;
	if (note->cause == CAUSE_NONE)
		return kinds[g->options.kind].of_figures &&
		       (of_device || strcmp(note->about, "gpu.memory") == 0);
	return of_device || kinds[g->options.kind].of_processes;
}

bool hwi_gpus_warning(struct hwi_gpus *g, struct hiw_err *ret)
{
	for (size_t i = 0; i < g->now.n_notes; i++) {
		struct gpu_note_now *note = &g->now.notes[i];
		struct err err = { "" };

		if (note->is_warned || !explains(g, note))
			continue;
		note->is_warned = true;
		(void) err_set(&err, -ENODATA, "%s", note->why);
		(void) api_err(ret, &err, -ENODATA);
		return true;
	}
	return false;
}

/* ---- results --------------------------------------------------------------------------------- */

bool hwi_gpus_device(const struct hwi_gpus *g, size_t i, struct hwi_gpu_device *ret)
{
	if (i >= g->now.n_gpus || ret->size != sizeof(*ret))
		return false;
	const struct gpu_now *d = &g->now.gpus[i];
	const struct maybe *m = d->metrics;

	*ret = (struct hwi_gpu_device) {
		.size = ret->size,
		.uuid = d->uuid,
		.name = d->name,
		.vendor = d->vendor,
		.pci = d->pci,
		.driver = d->driver,
		.parent = d->parent,
		.number = api_maybe(d->number),
		.index = api_maybe(d->index),
		.cuda_index = api_maybe(d->cuda_index),
		.cuda_visible = api_maybe(d->visible),
		.cuda_hidden = d->is_hidden,
		.lost = gpus_now_is_lost(&g->now, d),
		.unified = d->unified,
		.memory_total = api_maybe(d->memory_bytes),
		.memory_used = api_maybe(m[M_GPU_MEM]),
		.memory_free = api_maybe(m[M_GPU_MEM_FREE]),
		.memory_reserved = api_maybe(m[M_GPU_MEM_RESERVED]),
		.memory_unattributed = api_maybe(m[M_GPU_UNATTRIBUTED_MEM]),
		.busy_ppm = api_maybe(m[M_GPU_BUSY]),
		.sm_active_ppm = api_maybe(m[M_GPU_SM_ACTIVE]),
		.sm_occupancy_ppm = api_maybe(m[M_GPU_SM_OCCUPANCY]),
		.power_uw = api_maybe(m[M_GPU_POWER]),
		.power_limit_uw = api_maybe(m[M_GPU_POWER_LIMIT]),
		.temperature_mc = api_maybe(m[M_GPU_TEMP]),
		.clock_sm_hz = api_maybe(m[M_GPU_CLOCK_SM]),
		.processes = api_maybe(m[M_GPU_PROCESSES]),
	};
	return true;
}

bool hwi_gpus_user(const struct hwi_gpus *g, size_t i, struct hwi_gpu_user *ret)
{
	if (i >= g->now.n_users || ret->size != sizeof(*ret))
		return false;
	const struct gpu_user_now *u = &g->now.users[i];

	*ret = (struct hwi_gpu_user) {
		.size = ret->size,
		.pid = api_maybe(u->pid),
		.uid = api_maybe(u->uid),
		.user = u->user,
		.name = u->name,
		.command = u->command,
		.compute = u->compute,
		.graphics = u->graphics,
		.memory = api_maybe(u->metrics[M_GPROC_MEM]),
		.sm_busy_ppm = api_maybe(u->metrics[M_GPROC_SM_BUSY]),
	};
	for (size_t d = 0; d < g->now.n_gpus; d++) {
		if (g->now.gpus[d].id == u->gpu)
			ret->device = d;
	}
	return true;
}

int hwi_gpus_text(struct hwi_gpus *g, const struct hiw_style *style, char **ret, size_t *ret_len)
{
	static const enum units units[] = {
		[HIW_IEC] = UNITS_IEC, [HIW_SI] = UNITS_SI, [HIW_BYTES] = UNITS_BYTES
	};
	const struct sink_options o = {
		.units = style ? units[style->units] : UNITS_IEC,
		.width = style && style->width ? style->width : 80,
		.color = style && style->color,
		.utf8 = style && style->utf8,
	};
	struct buf out = BUF_INIT(1 << 26);
	int r = gpus_sink(&g->options, &g->now, &o, &out);

	*ret = r == 0 ? strdup(out.data) : NULL;
	*ret_len = out.len;
	buf_done(&out);
	return r == 0 && !*ret ? -ENOMEM : r;
}

int hwi_gpus_fields(enum hwi_gpus_format format, char **ret)
{
	struct buf out = BUF_INIT(1 << 20);

	gpus_fields_help(format == HWI_GPUS_QUERY        ? GPUS_QUERY
			 : format == HWI_GPUS_QUERY_APPS ? GPUS_QUERY_APPS
							 : GPUS_LINE,
		&out);
	*ret = out.error ? NULL : strdup(out.data);
	buf_done(&out);
	return *ret ? 0 : -ENOMEM;
}
