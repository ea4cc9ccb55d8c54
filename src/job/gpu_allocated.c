/* SPDX-License-Identifier: MIT
 *
 * Which of the machine's GPUs the scheduler allocated to the job: the variables that select GPUs (fact gpu_selection), applied
 * to the GPUs that the drivers show. All of it is computed anew when a GPU appears, because an index means nothing before.
 *
 * A number of Slurm's is that of its gres, for which the driver's index stands: equal unless gres.conf lists the devices in
 * another order. Other numbers are indexes of the vendor's runtime. UUIDs need no such assumption.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "job/job_internal.h"

enum {
	MOST_TEXT = 1 << 16
};

/* A part of a text, without blanks around it. text NULL: none. */
struct span {
	const char *text;
	size_t len;
};

static const struct {
	const char *vendor, *variable;
} selectors[] = {
	{ "nvidia", "CUDA_VISIBLE_DEVICES" },
	{ "amd", "ROCR_VISIBLE_DEVICES" },
	{ "intel", "ZE_AFFINITY_MASK" },
};

/* The value of a variable in "NAME=VALUE;NAME=VALUE". */
static struct span value_of(const char *selection, const char *name)
{
	const size_t n = strlen(name);

	for (const char *p = selection; *p;) {
		const size_t len = strcspn(p, ";");

		if (len > n && p[n] == '=' && strncmp(p, name, n) == 0)
			return (struct span) { p + n + 1, len - n - 1 };
		p += len + (p[len] == ';');
	}
	return (struct span) { NULL, 0 };
}

static const char *variable_of(const struct gpu_birth *gpu)
{
	for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++) {
		if (strcmp(gpu->vendor, selectors[i].vendor) == 0)
			return selectors[i].variable;
	}
	return NULL;
}

/* The next entry of a list separated by commas; an empty list has none. */
static bool next_entry(struct span *list, struct span *ret)
{
	if (!list->text)
		return false;
	const char *comma = memchr(list->text, ',', list->len);

	*ret = (struct span) { list->text, comma ? (size_t) (comma - list->text) : list->len };
	*list = comma ? (struct span) { comma + 1, list->len - ret->len - 1 } : (struct span) { NULL, 0 };
	while (ret->len > 0 && *ret->text == ' ') {
		ret->text++;
		ret->len--;
	}
	while (ret->len > 0 && ret->text[ret->len - 1] == ' ')
		ret->len--;
	return ret->len > 0;
}

static bool begins(const struct span *entry, const char *with)
{
	return entry->len >= strlen(with) && strncmp(entry->text, with, strlen(with)) == 0;
}

static struct maybe number_in(const char *text, size_t len)
{
	const char *p = text;
	uint64_t number;

	return parse_u64(&p, &number) == 0 && p == text + len && number <= INT32_MAX ? known((int64_t) number)
										     : UNKNOWN;
}

/* ---- one entry and one GPU ------------------------------------------------------------------------------------------- */

/* "MIG-GPU-UUID/3/0", the form before driver 470. Compute instances of one GPU instance count alike. */
static bool is_old_instance(const struct span *entry, const struct gpu_birth *gpu)
{
	const size_t uuid = strlen(gpu->parent), at = strlen("MIG-") + uuid;
	const char *end = entry->len > at + 1 ? memchr(entry->text + at + 1, '/', entry->len - at - 1) : NULL;
	const struct maybe instance =
		end ? number_in(entry->text + at + 1, (size_t) (end - entry->text) - at - 1) : UNKNOWN;

	return uuid > 0 && end && entry->text[at] == '/' &&
	       strncmp(entry->text + strlen("MIG-"), gpu->parent, uuid) == 0 && instance.known &&
	       gpu->gpu_instance.known && gpu->gpu_instance.value == instance.value;
}

/* A UUID may be abbreviated to its beginning. */
static bool is_named(const struct span *entry, const struct gpu_birth *gpu)
{
	if (begins(entry, "MIG-GPU-"))
		return is_old_instance(entry, gpu);
	return (begins(entry, "GPU-") || begins(entry, "MIG-")) &&
	       strncmp(gpu->uuid, entry->text, entry->len) == 0;
}

/* Of "0.1", a tile of Intel's device 0, the device. */
static struct maybe index_in(const struct span *entry)
{
	const char *dot = memchr(entry->text, '.', entry->len);

	return number_in(entry->text, dot ? (size_t) (dot - entry->text) : entry->len);
}

static bool is_numbered(const struct span *entry, const struct gpu_birth *gpu, bool is_cudas)
{
	const struct maybe number = index_in(entry), index = is_cudas ? gpu->cuda_index : gpu->index;

	return number.known && index.known && index.value == number.value && (is_cudas || !*gpu->parent);
}

/* ---- a list and all GPUs --------------------------------------------------------------------------------------------- */

static bool has_cuda_indexes(const struct job *job)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (job_gpu(job, i)->birth.gpu.cuda_index.known)
			return true;
	}
	return false;
}

/* Is the GPU one of the vendor's (NULL: of any with a selection of its own, or of all if there is no such selection)? */
static bool is_candidate(const struct gpu_birth *gpu, const char *selection, const char *vendor)
{
	bool any = false;

	if (vendor)
		return strcmp(gpu->vendor, vendor) == 0;
	for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++)
		any = any || value_of(selection, selectors[i].variable).text;
	return !gpu_is_npu(gpu) && (!any || (variable_of(gpu) && value_of(selection, variable_of(gpu)).text));
}

static void add_uuid(struct buf *out, const struct gpu_birth *gpu)
{
	(void) buf_printf(out, "%s%s", out->len > 0 ? "," : "", gpu->uuid);
}

/* Adds the GPU of an entry. False: there is none. */
static bool add_entry(const struct job *job, const struct span *entry, const char *vendor,
	const char *selection, bool is_cudas, struct buf *out)
{
	bool found = false;

	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct gpu_birth *gpu = &job_gpu(job, i)->birth.gpu;

		if (!is_candidate(gpu, selection, vendor) ||
			!(is_named(entry, gpu) || is_numbered(entry, gpu, is_cudas)))
			continue;
		if (!gpu_is_listed(out->data, gpu->uuid))
			add_uuid(out, gpu);
		found = true;
	}
	return found;
}

/* Slurm's list. A driver that shows no more GPUs than that shows the job's alone (cgroup of devices), under numbers of its own.
 * False: an entry is of no GPU that is known. */
static bool add_slurms(const struct job *job, struct span list, const char *selection, struct buf *out)
{
	struct span entry, rest = list;
	size_t wanted = 0, shown = 0;
	bool all = true;

	while (next_entry(&rest, &entry) &&
		(index_in(&entry).known || begins(&entry, "GPU-") || begins(&entry, "MIG-")))
		wanted++;
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct gpu_birth *gpu = &job_gpu(job, i)->birth.gpu;

		shown += !*gpu->parent && is_candidate(gpu, selection, NULL);
	}
	if (wanted == 0)
		return true;
	for (size_t i = 0; shown <= wanted && i < job_gpu_count(job); i++) {
		const struct gpu_birth *gpu = &job_gpu(job, i)->birth.gpu;

		if (!*gpu->parent && is_candidate(gpu, selection, NULL))
			add_uuid(out, gpu);
	}
	while (shown > wanted && next_entry(&list, &entry))
		all = add_entry(job, &entry, NULL, selection, false, out) && all;
	return all;
}

/* The runtimes of the vendors stop at the first entry that is no device: "-1", "NoDevFiles". */
static void add_selected(
	const struct job *job, struct span list, const char *vendor, const char *selection, struct buf *out)
{
	const bool is_cudas = strcmp(vendor, "nvidia") == 0 && has_cuda_indexes(job);
	struct span entry;

	while (next_entry(&list, &entry) && add_entry(job, &entry, vendor, selection, is_cudas, out))
		;
}

/* Slurm's numbers are those of its gres, where an instance is one; the driver has no such numbers. */
static bool has_instances(const char *selection)
{
	struct span list = value_of(selection, "CUDA_VISIBLE_DEVICES"), entry;

	return next_entry(&list, &entry) && begins(&entry, "MIG-");
}

void gpus_allocate(struct job *job)
{
	struct facts *f = job_facts(job);
	const char *selection = f->gpu_selection;
	struct buf out = BUF_INIT(MOST_TEXT);
	bool is_known = true;

	if (!selection || (*selection && job_gpu_count(job) == 0))
		return;
	const struct span slurms = value_of(selection, "SLURM_STEP_GPUS");

	if (slurms.text && !has_instances(selection)) {
		is_known = add_slurms(job, slurms, selection, &out);
	} else {
		for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++)
			add_selected(job, value_of(selection, selectors[i].variable), selectors[i].vendor,
				selection, &out);
	}
	(void) job_set_text(&f->allocated_gpus, is_known && out.error == 0 ? out.data : NULL);
	buf_done(&out);
}

/* The entries of both lists. */
static void add_lists(struct span list, struct span more, struct buf *out)
{
	const size_t begun = out->len;
	struct span entry;

	(void) buf_add(out, list.text ? list.text : "", list.len);
	while (next_entry(&more, &entry)) {
		struct span has = { out->data + begun, out->len - begun }, one;
		bool found = false;

		while (!found && next_entry(&has, &one))
			found = one.len == entry.len && memcmp(one.text, entry.text, one.len) == 0;
		if (!found) {
			(void) buf_str(out, out->len > begun ? "," : "");
			(void) buf_add(out, entry.text, entry.len);
		}
	}
}

int job_select_gpus(struct job *job, const char *selection)
{
	const char *const names[] = { "SLURM_STEP_GPUS", selectors[0].variable, selectors[1].variable,
		selectors[2].variable };
	struct facts *f = job_facts(job);
	const char *before = f->gpu_selection ? f->gpu_selection : "";
	struct buf out = BUF_INIT(MOST_TEXT);
	int r;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct span list = value_of(before, names[i]), more = value_of(selection, names[i]);

		if (!list.text && !more.text)
			continue;
		(void) buf_printf(&out, "%s%s=", out.len > 0 ? ";" : "", names[i]);
		add_lists(list, more, &out);
	}
	r = out.error;
	if (r == 0 && out.len > 0 && strcmp(out.data, before) != 0) {
		r = job_set_text(&f->gpu_selection, out.data);
		(void) job_set_text(&f->allocated_gpus, NULL);
		gpus_allocate(job);
	}
	buf_done(&out);
	return r;
}

/* ---- what counts as the job's ---------------------------------------------------------------------------------------- */

bool gpu_is_listed(const char *list, const char *uuid)
{
	struct span all = { list, strlen(list) }, entry;

	while (next_entry(&all, &entry)) {
		if (strlen(uuid) == entry.len && strncmp(entry.text, uuid, entry.len) == 0)
			return true;
	}
	return false;
}

struct maybe gpu_is_allocated(const struct facts *f, const struct gpu_birth *gpu)
{
	if (!f->allocated_gpus)
		return UNKNOWN;
	return known(gpu_is_listed(f->allocated_gpus, gpu->uuid) ||
		     (*gpu->parent && gpu_is_listed(f->allocated_gpus, gpu->parent)));
}

/* A process of the job was seen on it. */
static bool is_used(const struct job *job, uint32_t gpu)
{
	const struct acc *used = job_acc(job, M_GPU_JOB_MEM, gpu);

	for (size_t i = 0; i < job_gpu_process_count(job); i++) {
		const struct gpu_process_birth *p = &job_gpu_process(job, i)->birth.gpu_process;

		if (p->gpu == gpu && p->process)
			return true;
	}
	return used && used->max > 0;
}

bool job_gpu_counts(const struct job *job, const struct birth *gpu)
{
	const struct facts *f = job_facts_const(job);

	if (!f->allocated_gpus || gpu_is_allocated(f, &gpu->gpu).value)
		return true;
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		if (job_gpu_is_on(job, b->id, gpu->id) &&
			(gpu_is_allocated(f, &b->gpu).value || is_used(job, b->id)))
			return true;
	}
	return false;
}

bool job_gpu_id_counts(const struct job *job, uint32_t id)
{
	for (size_t i = 0; job_facts_const(job)->allocated_gpus && i < job_gpu_count(job); i++) {
		if (job_gpu(job, i)->birth.id == id)
			return job_gpu_counts(job, &job_gpu(job, i)->birth);
	}
	return true;
}

size_t job_gpus_counted(const struct job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job_gpu_count(job); i++)
		n += job_gpu_counts(job, &job_gpu(job, i)->birth);
	return n;
}
