/* SPDX-License-Identifier: MIT
 *
 * A complete program that uses the library: a callback reports when rules about a running process
 * become true and false again; for rules of level error it keeps full-rate data.
 *
 *     cc alerts.c -o alerts $(pkg-config --cflags --libs hiwater)
 *     ./alerts 4711 'ram > 4GiB for 10s' 'error: growth(ram) > 1GiB/min'
 */
#include <hiwater.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* Called by hiw_recorder_step. The texts of the alert are valid until it returns. */
static void print_alert(void *ctx, const struct hiw_alert *alert)
{
	struct hiw_recorder *recorder = ctx;

	printf("%8.1f s  %s %s\n", (double) alert->time_ns / 1e9, alert->raised ? "raised " : "cleared",
		alert->text);
	fflush(stdout);
	if (alert->raised && alert->level == HIW_ERROR)
		hiw_recorder_trigger(recorder, alert->text);
}

int main(int argc, char **argv)
{
	struct hiw_options options = HIW_OPTIONS_INIT;
	struct hiw_recorder *recorder = NULL;
	struct hiw_err err = { "" };

	if (argc < 3)
		return fprintf(stderr, "usage: alerts PID RULE...\n"), 2;
	options.attached = true;
	options.output = getenv("ALERTS_OUTPUT"); /* NULL: the history */
	options.alerts = (const char *const *) argv + 2;
	if (hiw_recorder_new(&options, &recorder, &err) < 0)
		return fprintf(stderr, "alerts: %s\n", err.text), 2;
	hiw_recorder_on_alert(recorder, print_alert, recorder);
	if (hiw_recorder_start(recorder, (pid_t) strtol(argv[1], NULL, 10), &err) < 0)
		return fprintf(stderr, "alerts: %s\n", err.text), 1;
	while (!hiw_recorder_finished(recorder)) {
		struct pollfd work = { .fd = hiw_recorder_fd(recorder), .events = POLLIN };

		(void) poll(&work, 1, -1);
		hiw_recorder_step(recorder);
	}
	(void) hiw_recorder_end(recorder, NULL);
	printf("recording: %s\n", hiw_recorder_path(recorder));
	hiw_recorder_free(recorder);
	return 0;
}
