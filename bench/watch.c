/* SPDX-License-Identifier: MIT
 *
 * Measures the cost of the rule engine: frames as the clock makes them (ten processes, totals, the
 * machine, pushed series) through 50 rules. Prints lines "RULES PROCESSES FRAME_NS SHARE", several
 * rounds: CPU time per frame, and the share of a core that 10,000 frames a second would take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/framebuf.h"
#include "rules/engine.h"

enum {
	ROUNDS = 15,
	TURNS = 5000,
	FRAMES_A_TURN = 4,
	PROCESSES = 10,
	RULES = 50,
};

/* Typical rules, most of which are false most of the time, as in practice. */
static const char *const rules[] = {
	"ram > 90% of limit for 30s",
	"ram > 24GiB",
	"growth(ram) > 10MiB/min",
	"loss is nan",
	"no step for 5m",
	"process.rss > 8GiB",
	"cpu < 5% for 10m",
	"host.mem_used > 95%",
	"swap > 0 and ram > 1GiB",
	"(loss > 10 or loss is inf) and not time < 1m",
};

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void show(struct watch *w, struct framebuf *buf, enum frame_source source, uint64_t now)
{
	const struct frame frame = framebuf_frame(buf, source, now, UINT64_C(3000000000));

	watch_frame(w, &frame);
	framebuf_clear(buf);
}

static void births(struct watch *w, struct framebuf *buf)
{
	for (uint32_t id = 1; id <= PROCESSES; id++) {
		const struct birth b = { .entity = ENTITY_PROCESS,
			.id = id,
			.process = { .pid = (int32_t) id, .name = "x", .command = "" } };

		framebuf_birth(buf, &b);
	}
	show(w, buf, FRAME_PROCFS, 0);
}

/* FRAMES_A_TURN frames. */
static void turn(struct watch *w, struct framebuf *buf, uint64_t now)
{
	const struct series_value loss = {
		.name = "loss", .value = (double) (now % 7), .has_step = true, .step = (int64_t) now
	};
	struct alert alert;

	for (uint32_t id = 1; id <= PROCESSES; id++) {
		framebuf_value(buf, M_PROC_RSS, id, (int64_t) (now % 1000) << 20);
		framebuf_value(buf, M_PROC_RSS_FILE, id, 1 << 20);
	}
	show(w, buf, FRAME_PROCFS, now);
	framebuf_value(buf, M_JOB_RAM, 0, (int64_t) (now % 1000) << 20);
	framebuf_value(buf, M_JOB_SWAP, 0, 0);
	framebuf_value(buf, M_JOB_CPU_USER, 0, (int64_t) now);
	framebuf_value(buf, M_JOB_CPU_SYSTEM, 0, (int64_t) now);
	show(w, buf, FRAME_TOTALS, now);
	framebuf_value(buf, M_HOST_MEM_USED, 0, (int64_t) (now % 1000) << 20);
	show(w, buf, FRAME_HOST, now);
	framebuf_series(buf, &loss);
	show(w, buf, FRAME_USER, now);
	while (watch_next(w, &alert))
		;
}

int main(void)
{
	struct facts facts = { .limit_bytes = known(INT64_C(1) << 34),
		.capacity_bytes = known(INT64_C(1) << 36),
		.cpus = known(8) };
	struct watch *w = watch_new(&facts);
	struct framebuf buf = { 0 };
	uint64_t now = 0;

	for (size_t i = 0; w && i < RULES; i++) {
		struct rule rule;

		if (rule_parse(rules[i % (sizeof(rules) / sizeof(rules[0]))], RULE_ALERT, &rule, NULL) < 0 ||
			watch_add(w, &rule) < 0)
			return 1;
	}
	if (!w)
		return 1;
	births(w, &buf);
	for (int r = 0; r < ROUNDS; r++) {
		const double before = cpu_ns();

		for (int t = 0; t < TURNS; t++, now += 400000)
			turn(w, &buf, now);
		const double frame = (cpu_ns() - before) / TURNS / FRAMES_A_TURN;

		printf("%d %d %.1f %.5f\n", RULES, PROCESSES, frame, frame * 1e-9 * 10000);
	}
	watch_free(w);
	framebuf_done(&buf);
	return 0;
}
