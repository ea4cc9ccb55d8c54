/* SPDX-License-Identifier: MIT */
#include "record/schema.h"

#include <string.h>

const struct fact_info fact_infos[] = {
#define F_INT(name)             { #name, false, offsetof(struct facts, name) },
#define F_TEXT(name)            { #name, true, offsetof(struct facts, name) },
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
};
const size_t fact_count = sizeof(fact_infos) / sizeof(fact_infos[0]);

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const unit_names[] = {
	[UNIT_BYTES] = "bytes",
	[UNIT_NS] = "ns",
	[UNIT_COUNT] = "count",
	[UNIT_PPM] = "ppm",
	[UNIT_UJ] = "uj",
	[UNIT_UW] = "uw",
	[UNIT_MCEL] = "mcel",
	[UNIT_HZ] = "hz",
};
static const char *const kind_names[] = {
	[KIND_GAUGE] = "gauge",
	[KIND_COUNTER] = "counter",
	[KIND_HWM] = "hwm",
};
static const char *const adds_names[] = { [ADDS_SUM] = "sum", [ADDS_MAX] = "max", [ADDS_NONE] = "none" };

const char *unit_name(enum unit unit)
{
	return unit_names[unit];
}

const char *kind_name(enum metric_kind kind)
{
	return kind_names[kind];
}

const char *adds_name(enum adds adds)
{
	return adds_names[adds];
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The keys of summary and timeline begin with the columns that change together, so that an update
 * of eight GPUs touches few pages. */
static const char fixed_tables[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE metric(entity TEXT, name TEXT, unit TEXT, kind TEXT, adds TEXT, openmetrics TEXT, labels TEXT,"
	" json TEXT, origin TEXT, sentence TEXT, PRIMARY KEY(entity, name)) WITHOUT ROWID;"
	"CREATE TABLE process(id INTEGER PRIMARY KEY, parent INTEGER, pid INTEGER, ppid INTEGER, uid INTEGER,"
	" start INTEGER, startstack INTEGER, born INTEGER, ended INTEGER, end_source TEXT, status INTEGER, is_main INTEGER,"
	" name TEXT, rss INTEGER, rss_file INTEGER, peak INTEGER, peak_exact INTEGER, cpu_user INTEGER,"
	" cpu_system INTEGER, faults_minor INTEGER, faults_waited INTEGER, read_bytes INTEGER, write_bytes INTEGER,"
	" private INTEGER, shared INTEGER, command TEXT, grown INTEGER, grown_since INTEGER, rank INTEGER);"
	"CREATE TABLE gpu(id INTEGER PRIMARY KEY, uuid TEXT, name TEXT, vendor TEXT, number INTEGER, memory INTEGER,"
	" born INTEGER, ended INTEGER, pci TEXT, parent TEXT, driver TEXT, cuda INTEGER, unified INTEGER,"
	" is_module INTEGER, is_numa INTEGER, power_span INTEGER);"
	"CREATE TABLE gpu_process(id INTEGER PRIMARY KEY, gpu INTEGER, process INTEGER, pid INTEGER, born INTEGER,"
	" ended INTEGER, uid INTEGER, name TEXT, compute INTEGER, graphics INTEGER);"
	"CREATE TABLE phase(number INTEGER PRIMARY KEY, parent INTEGER, name TEXT, began INTEGER, ended INTEGER,"
	" ram_before INTEGER, ram_peak INTEGER, ram_after INTEGER, peak_exact INTEGER, facts TEXT,"
	" gpu_before INTEGER, gpu_peak INTEGER, gpu_after INTEGER, gpu_busy INTEGER, gpu_sm_active INTEGER,"
	" cpu_energy INTEGER, gpu_energy INTEGER, job_peak INTEGER, cpu INTEGER);"
	"CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT, n INTEGER, first REAL, last REAL, min REAL, max REAL,"
	" step INTEGER, sum REAL, minima TEXT);"
	"CREATE TABLE series_value(t INTEGER, series INTEGER, step INTEGER, value REAL);"
	"CREATE TABLE event(t INTEGER, kind TEXT, entity TEXT, id INTEGER, phase INTEGER, value INTEGER, text TEXT,"
	" cause TEXT);"
	"CREATE TABLE summary(entity TEXT, id INTEGER, metric TEXT, n INTEGER, min INTEGER, max INTEGER,"
	" max_at INTEGER, last INTEGER, last_at INTEGER, hold INTEGER, sum REAL, span INTEGER, unlisted INTEGER, rise INTEGER,"
	" PRIMARY KEY(entity, metric, id)) WITHOUT ROWID;"
	"CREATE TABLE timeline(entity TEXT, id INTEGER, metric TEXT, t INTEGER, span INTEGER, cover INTEGER, min INTEGER,"
	" max INTEGER, sum REAL, PRIMARY KEY(t, entity, metric, id)) WITHOUT ROWID;";

int schema_name(struct buf *out, enum entity entity, bool recent)
{
	return buf_printf(out, "%s_%s", entity_name(entity), recent ? "recent" : "sample");
}

static int see_metric(
	const struct metric_info *m, bool recent, int (*see)(void *ctx, const char *column), void *ctx)
{
	static const char *const suffixes[] = { "_min", "", "_max" };
	const bool three = m->kind == KIND_GAUGE && !recent;
	struct buf name = BUF_INIT(128);
	int r = 0;

	for (int i = three ? 0 : 1; i <= (three ? 2 : 1) && r >= 0; i++) {
		buf_clear(&name);
		r = buf_printf(&name, "%s%s", m->name, suffixes[i]);
		if (r >= 0)
			r = see(ctx, name.data);
	}
	buf_done(&name);
	return r;
}

int schema_columns(const struct row_layout *l, enum entity entity, bool recent,
	int (*see)(void *ctx, const char *column), void *ctx)
{
	static const char *const first[] = { "t", "id", "span", "n", "part" };
	int r = 0;

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]) && r >= 0; i++) {
		if (i != 1 || entity_has_id(entity))
			r = see(ctx, first[i]);
	}
	for (unsigned c = 0; c < l->n[entity] && r >= 0; c++)
		r = see_metric(&metrics[l->metric[entity][c]], recent, see, ctx);
	return r < 0 ? r : 0;
}

struct writing {
	struct buf *out;
	bool alone, started;
};

static int write_column(void *ctx, const char *column)
{
	struct writing *w = ctx;
	bool key = w->alone && strcmp(column, "t") == 0;

	(void) buf_printf(w->out, "%s%s %s", w->started ? ", " : "(", column,
		strcmp(column, "part") == 0 ? "TEXT" : key ? "INTEGER PRIMARY KEY"
							   : "INTEGER");
	w->started = true;
	return w->out->error;
}

/* Clustered by time, so that old rows are on common pages. */
static int write_table(struct buf *out, const struct row_layout *l, enum entity entity, bool recent)
{
	struct writing w = { .out = out, .alone = !entity_has_id(entity) };

	(void) buf_str(out, "CREATE TABLE ");
	(void) schema_name(out, entity, recent);
	(void) schema_columns(l, entity, recent, write_column, &w);
	return buf_str(out, w.alone ? ");" : ", PRIMARY KEY(t, id)) WITHOUT ROWID;");
}

int schema_tables(struct buf *out)
{
	struct row_layout l;

	row_layout_init(&l);
	(void) buf_str(out, fixed_tables);
	for (int e = 0; e < ENTITY_COUNT; e++) {
		(void) write_table(out, &l, (enum entity) e, false);
		(void) write_table(out, &l, (enum entity) e, true);
	}
	return out->error;
}

static int write_parameter(void *ctx, const char *column)
{
	struct writing *w = ctx;

	(void) column;
	(void) buf_str(w->out, w->started ? ",?" : "(?");
	w->started = true;
	return w->out->error;
}

int schema_insert(struct buf *out, const struct row_layout *l, enum entity entity, bool recent)
{
	struct writing w = { .out = out };

	(void) buf_str(out, "INSERT OR REPLACE INTO ");
	(void) schema_name(out, entity, recent);
	(void) buf_str(out, " VALUES");
	(void) schema_columns(l, entity, recent, write_parameter, &w);
	return buf_str(out, ")");
}
