// SPDX-License-Identifier: MIT
/* Connections, groups, watches and the latest values. */
#include "dcgm_fake.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ALL_GPUS = 0x7fffffff,
	ALL_INSTANCES = 0x7ffffffd,
	ALL_COMPUTE = 0x7ffffffc,
	MOST = 128,
	MOST_DEVICES = 32
};

struct group {
	struct dcgm_pair pairs[MOST];
	size_t n;
};
struct field_group {
	char name[256];
	uint16_t ids[MOST];
	size_t n;
};
struct watch {
	uintptr_t group, field_group;
	double since, every;
};

/* State of the only possible connection; handles are numbers from 1, 0 is none. */
static struct {
	pthread_mutex_t lock;
	struct fake_scenario scenario;
	bool is_loaded, is_paused;
	int references;
	uintptr_t handle, handles; /* the open one, and the number of handles so far */
	struct group groups[MOST];
	size_t n_groups;
	struct field_group field_groups[MOST];
	size_t n_field_groups;
	struct watch watches[MOST];
	size_t n_watches;
	double updated; /* by dcgmUpdateAllFields; negative: never */
} the = { .lock = PTHREAD_MUTEX_INITIALIZER, .updated = -1 };

static bool is_gone(void)
{
	double t = fake_now(), gone = fake_bag_number(&the.scenario.driver, "engine_gone", t, t + 1),
	       back = fake_bag_number(&the.scenario.driver, "engine_back", t, t + 1);

	return t >= gone && t < back;
}

/* Codes of rules are written without the minus. */
static int enter(const char *call, uintptr_t handle)
{
	if (the.references == 0)
		return DCGM_UNINITIALIZED;
	if (is_gone())
		the.handle = 0; /* the engine forgets its objects with the connection */
	if (handle != the.handle || handle == 0)
		return DCGM_CONNECTION_NOT_VALID;
	return -fake_call(&the.scenario, call, NULL);
}

EXPORT const char *errorString(int code)
{
	return code == DCGM_OK ? "Success" : "An error of the fake";
}

EXPORT int dcgmInit(void)
{
	const char *path = getenv("HIWATER_FAKE_NVML");
	int code;

	pthread_mutex_lock(&the.lock);
	if (!the.is_loaded) {
		fake_scenario_load(&the.scenario, path ? path : FAKE_SCENARIOS "/default.conf");
		fake_clock_start(&the.scenario);
		the.is_loaded = true;
	}
	code = -fake_call(&the.scenario, __func__, NULL);
	the.references += code == 0;
	pthread_mutex_unlock(&the.lock);
	return code;
}

EXPORT int dcgmShutdown(void)
{
	if (the.references == 0)
		return DCGM_UNINITIALIZED;
	the.handle = 0;
	the.references--;
	return DCGM_OK;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* An address with the default port. */
static bool is_engine(const char *address)
{
	const char *engine = fake_bag_text(&the.scenario.driver, "engine", "");
	size_t len = strlen(address);

	return strncmp(engine, address, len) == 0 &&
	       (engine[len] == '\0' || strcmp(engine + len, ":5555") == 0);
}

static int connect_to(const char *call, const char *address, bool is_unix, uintptr_t *ret)
{
	int code = the.references == 0 ? DCGM_UNINITIALIZED : -fake_call(&the.scenario, call, NULL);

	if (code != 0)
		return code;
	if (!address || !ret || *address == '\0')
		return DCGM_BADPARAM;
	if (is_gone() || !is_engine(address) || is_unix != (*address == '/'))
		return DCGM_CONNECTION_NOT_VALID;
	the.handle = *ret = ++the.handles;
	the.n_groups = the.n_field_groups = the.n_watches = 0;
	return DCGM_OK;
}

EXPORT int dcgmConnect(const char *address, uintptr_t *ret)
{
	return connect_to(__func__, address, false, ret);
}

EXPORT int dcgmConnect_v2(const char *address, const struct dcgm_connect_params *params, uintptr_t *ret)
{
	if (params && params->version != 0x02000010 && params->version != 0x01000008)
		return DCGM_VER_MISMATCH;
	return connect_to(__func__, address, params && params->version == 0x02000010 && params->is_unix, ret);
}

EXPORT int dcgmDisconnect(uintptr_t handle)
{
	int code = enter(__func__, handle);

	if (code == 0)
		the.handle = 0;
	return code;
}

/* An embedded engine would claim the counters of the running one: no caller may start it. */
EXPORT int dcgmStartEmbedded_v2(void *params)
{
	(void) params;
	return the.references == 0 ? DCGM_UNINITIALIZED
				   : (fake_call(&the.scenario, __func__, NULL), DCGM_NOT_SUPPORTED);
}

static int pause_set(const char *call, uintptr_t handle, bool is_paused)
{
	int code = enter(call, handle);

	if (code == 0)
		the.is_paused = is_paused;
	return code;
}

EXPORT int dcgmProfPause(uintptr_t handle)
{
	return pause_set(__func__, handle, true);
}

EXPORT int dcgmProfResume(uintptr_t handle)
{
	return pause_set(__func__, handle, false);
}

/* ---- devices --------------------------------------------------------------------------------- */

static size_t entities(unsigned entity_group)
{
	if (entity_group == DCGM_INSTANCE || entity_group == DCGM_COMPUTE_INSTANCE)
		return the.scenario.n_migs;
	return entity_group == DCGM_GPU ? the.scenario.n_gpus : 0;
}

static const struct fake_gpu *entity_find(unsigned entity_group, unsigned entity)
{
	if (entity >= entities(entity_group))
		return NULL;
	return entity_group == DCGM_GPU ? the.scenario.gpus[entity] : the.scenario.migs[entity];
}

static int devices_get(const char *call, uintptr_t handle, unsigned ids[], int *n)
{
	int code = enter(call, handle);

	if (code != 0 || !ids || !n)
		return code ?: DCGM_BADPARAM;
	*n = 0;
	while (*n < MOST_DEVICES && (size_t) *n < the.scenario.n_gpus) {
		ids[*n] = (unsigned) *n;
		(*n)++;
	}
	return DCGM_OK;
}

EXPORT int dcgmGetAllDevices(uintptr_t handle, unsigned ids[], int *n)
{
	return devices_get(__func__, handle, ids, n);
}

EXPORT int dcgmGetAllSupportedDevices(uintptr_t handle, unsigned ids[], int *n)
{
	return devices_get(__func__, handle, ids, n);
}

EXPORT int dcgmGetEntityGroupEntities(
	uintptr_t handle, unsigned entity_group, unsigned ids[], int *n, unsigned flags)
{
	int code = enter(__func__, handle), capacity;

	(void) flags;
	if (code != 0 || !ids || !n)
		return code ?: DCGM_BADPARAM;
	capacity = *n;
	*n = (int) entities(entity_group);
	for (int i = 0; i < *n && i < capacity; i++)
		ids[i] = (unsigned) i;
	return *n > capacity ? DCGM_INSUFFICIENT_SIZE : DCGM_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int group_add(struct group *group, unsigned entity_group, unsigned entity)
{
	if (!entity_find(entity_group, entity) || group->n == MOST)
		return DCGM_BADPARAM;
	group->pairs[group->n++] = (struct dcgm_pair) { entity_group, entity };
	return DCGM_OK;
}

/* A group by its id, from 1; NULL: none. */
static struct group *group_find(uintptr_t id)
{
	return id >= 1 && id <= the.n_groups ? &the.groups[id - 1] : NULL;
}

EXPORT int dcgmGroupCreate(uintptr_t handle, int type, const char *name, uintptr_t *ret)
{
	int code = enter(__func__, handle);

	if (code != 0 || !name || !ret || type < 0 || type > 1 || the.n_groups == MOST)
		return code ?: DCGM_BADPARAM;
	the.groups[the.n_groups].n = 0;
	for (unsigned i = 0; type == 0 && i < the.scenario.n_gpus; i++)
		(void) group_add(&the.groups[the.n_groups], DCGM_GPU, i);
	*ret = ++the.n_groups;
	return DCGM_OK;
}

EXPORT int dcgmGroupAddEntity(uintptr_t handle, uintptr_t id, unsigned entity_group, unsigned entity)
{
	int code = enter(__func__, handle);
	struct group *group = group_find(id);

	return code ?: !group ? DCGM_BADPARAM
			      : group_add(group, entity_group, entity);
}

EXPORT int dcgmGroupAddDevice(uintptr_t handle, uintptr_t id, unsigned gpu)
{
	int code = enter(__func__, handle);
	struct group *group = group_find(id);

	return code ?: !group ? DCGM_BADPARAM
			      : group_add(group, DCGM_GPU, gpu);
}

EXPORT int dcgmGroupDestroy(uintptr_t handle, uintptr_t id)
{
	int code = enter(__func__, handle);
	struct group *group = group_find(id);

	if (code == 0 && group)
		group->n = 0;
	return code ?: group ? DCGM_OK
			     : DCGM_BADPARAM;
}

static bool group_has(uintptr_t id, unsigned entity_group, unsigned entity)
{
	const struct group *group = group_find(id);

	if (id == ALL_GPUS)
		return entity_group == DCGM_GPU;
	if (id == ALL_INSTANCES || id == ALL_COMPUTE)
		return entity_group == (id == ALL_INSTANCES ? DCGM_INSTANCE : DCGM_COMPUTE_INSTANCE);
	for (size_t i = 0; group && i < group->n; i++) {
		if (group->pairs[i].entity_group == entity_group && group->pairs[i].entity == entity)
			return true;
	}
	return false;
}

/* ---- groups of fields ------------------------------------------------------------------------ */

static struct field_group *field_group_find(uintptr_t id)
{
	return id >= 1 && id <= the.n_field_groups ? &the.field_groups[id - 1] : NULL;
}

EXPORT int dcgmFieldGroupCreate(
	uintptr_t handle, int n, const uint16_t ids[], const char *name, uintptr_t *ret)
{
	int code = enter(__func__, handle);
	struct field_group *made = &the.field_groups[the.n_field_groups];

	if (code != 0 || n < 1 || n > MOST || !ids || !name || !ret || the.n_field_groups == MOST)
		return code ?: DCGM_BADPARAM;
	for (size_t i = 0; i < the.n_field_groups; i++) {
		if (strcmp(the.field_groups[i].name, name) == 0)
			return DCGM_DUPLICATE_KEY;
	}
	snprintf(made->name, sizeof(made->name), "%s", name);
	memcpy(made->ids, ids, (size_t) n * sizeof(*ids));
	made->n = (size_t) n;
	*ret = ++the.n_field_groups;
	return DCGM_OK;
}

EXPORT int dcgmFieldGroupDestroy(uintptr_t handle, uintptr_t id)
{
	int code = enter(__func__, handle);
	struct field_group *group = field_group_find(id);

	if (code == 0 && group) {
		group->n = 0;
		group->name[0] = '\0';
	}
	return code ?: group ? DCGM_OK
			     : DCGM_BADPARAM;
}

static bool field_group_has(uintptr_t id, uint16_t field)
{
	const struct field_group *group = field_group_find(id);

	for (size_t i = 0; group && i < group->n; i++) {
		if (group->ids[i] == field)
			return true;
	}
	return false;
}

/* ---- watches --------------------------------------------------------------------------------- */

static bool is_group(uintptr_t id)
{
	return group_find(id) || id == ALL_GPUS || id == ALL_INSTANCES || id == ALL_COMPUTE;
}

EXPORT int dcgmWatchFields(uintptr_t handle, uintptr_t group, uintptr_t field_group, long long every_us,
	double keep_s, int keep_n)
{
	int code = enter(__func__, handle);

	(void) keep_s;
	(void) keep_n;
	if (code != 0 || !is_group(group) || !field_group_find(field_group) || every_us <= 0 ||
		the.n_watches == MOST)
		return code ?: DCGM_BADPARAM;
	the.watches[the.n_watches++] = (struct watch) { group, field_group, fake_now(),
		(double) every_us / 1e6 };
	return DCGM_OK;
}

EXPORT int dcgmUnwatchFields(uintptr_t handle, uintptr_t group, uintptr_t field_group)
{
	int code = enter(__func__, handle);
	size_t kept = 0;

	if (code != 0)
		return code;
	for (size_t i = 0; i < the.n_watches; i++) {
		if (the.watches[i].group != group || the.watches[i].field_group != field_group)
			the.watches[kept++] = the.watches[i];
	}
	the.n_watches = kept;
	return DCGM_OK;
}

EXPORT int dcgmUpdateAllFields(uintptr_t handle, int is_to_wait)
{
	int code = enter(__func__, handle);

	(void) is_to_wait;
	if (code == 0)
		the.updated = fake_now();
	return code;
}

/* Watches of other clients, which began long ago. */
static struct dcgm_update others_update(uint16_t field)
{
	const char *list = fake_bag_text(&the.scenario.driver, "profiled", "");
	double now = fake_now(), every = fake_bag_number(&the.scenario.driver, "profile_period", now, 30);
	double at = floor(now / every + 1e-9) * every;
	char *end;

	for (const char *p = list; *p; p = end) {
		unsigned long id = strtoul(p, &end, 10);
		if (end == p)
			fake_die("profiled: not a list of fields: %s", list);
		if (id == field)
			return (struct dcgm_update) {
				.is_watched = true, .is_there = true, .before = at - every, .at = at
			};
		end += strspn(end, " ");
	}
	return (struct dcgm_update) { 0 };
}

/* The engine updates at each multiple of the interval since the watch began; the caller can ask for
 * one more. */
static struct dcgm_update update_of(unsigned entity_group, unsigned entity, uint16_t field)
{
	for (size_t i = 0; i < the.n_watches; i++) {
		const struct watch *w = &the.watches[i];
		double at = w->since + floor((fake_now() - w->since) / w->every + 1e-9) * w->every;
		struct dcgm_update update = {
			.is_watched = true, .is_there = at > w->since, .before = at - w->every, .at = at
		};
		if (!group_has(w->group, entity_group, entity) || !field_group_has(w->field_group, field))
			continue;
		if (the.updated > at || (!update.is_there && the.updated >= w->since)) {
			update.is_there = true;
			update.before = update.at;
			update.at = the.updated;
		}
		return update;
	}
	return others_update(field);
}

/* ---- latest values --------------------------------------------------------------------------- */

static bool is_lost(const struct fake_gpu *gpu)
{
	double t = fake_now();

	return t >= fake_bag_number(&(gpu->parent ? gpu->parent : gpu)->bag, "lost", t, t + 1);
}

static int value_get(unsigned entity_group, unsigned entity, uint16_t field, struct dcgm_value_v1 *ret)
{
	const struct fake_gpu *gpu = entity_find(entity_group, entity);

	if (!gpu)
		return DCGM_BADPARAM;
	dcgm_value_fill(
		&the.scenario, gpu, field, update_of(entity_group, entity, field), the.is_paused, ret);
	if (is_lost(gpu))
		ret->status = DCGM_GPU_IS_LOST;
	return DCGM_OK;
}

EXPORT int dcgmGetLatestValuesForFields(uintptr_t handle, int gpu, const uint16_t fields[], unsigned n,
	struct dcgm_value_v1 values[])
{
	int code = enter(__func__, handle);

	if (code == 0 && (!fields || !values || n == 0))
		code = DCGM_BADPARAM;
	for (unsigned i = 0; i < n && code == 0; i++)
		code = value_get(DCGM_GPU, (unsigned) gpu, fields[i], &values[i]);
	return code;
}

EXPORT int dcgmEntitiesGetLatestValues(uintptr_t handle, const struct dcgm_pair pairs[], unsigned n_pairs,
	const uint16_t fields[], unsigned n_fields, unsigned flags, struct dcgm_value_v2 values[])
{
	int code = enter(__func__, handle);
	struct dcgm_value_v1 v1;

	(void) flags;
	if (code == 0 && (!pairs || !fields || !values))
		code = DCGM_BADPARAM;
	for (unsigned i = 0; i < n_pairs * n_fields && code == 0; i++) {
		const struct dcgm_pair *pair = &pairs[i / n_fields];
		code = value_get(pair->entity_group, pair->entity, fields[i % n_fields], &v1);
		if (code == 0)
			values[i] = (struct dcgm_value_v2) {
				.version = sizeof(*values) | 2 << 24,
				.entity_group = pair->entity_group,
				.entity = pair->entity,
				.field = v1.field,
				.type = v1.type,
				.status = v1.status,
				.stamp = v1.stamp,
				.value = v1.value,
			};
	}
	return code;
}

/* Calls back for each GPU of the group with all fields of the field group, until the callback
 * stops. */
EXPORT int dcgmGetLatestValues(uintptr_t handle, uintptr_t group, uintptr_t id,
	int (*callback)(unsigned, struct dcgm_value_v1 *, int, void *), void *user)
{
	int code = enter(__func__, handle);
	const struct field_group *fields = field_group_find(id);
	struct dcgm_value_v1 *values = code == 0 && fields ? calloc(fields->n + 1, sizeof(*values)) : NULL;
	bool wants_more = true;

	if (!values || !callback || !is_group(group)) {
		free(values);
		return code ?: DCGM_BADPARAM;
	}
	for (unsigned gpu = 0; gpu < the.scenario.n_gpus && wants_more; gpu++) {
		if (!group_has(group, DCGM_GPU, gpu))
			continue;
		for (size_t i = 0; i < fields->n; i++)
			(void) value_get(DCGM_GPU, gpu, fields->ids[i], &values[i]);
		wants_more = callback(gpu, values, (int) fields->n, user) == 0;
	}
	free(values);
	return DCGM_OK;
}
