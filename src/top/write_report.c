/* SPDX-License-Identifier: MIT
 *
 * w: runs hiwater report on the recording so far, in a process of its own. The view continues, and
 * shows the name of the page when it is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/textwidth.h"
#include "top/keys.h"

enum {
	NICE = 10,               /* the job has priority */
	PATIENCE_MS = 5000       /* when the view is left before it is done */
};

static _Noreturn void become_report(const struct top *t, int out)
{
	static const int ignored[] = { SIGPIPE, SIGINT, SIGQUIT, SIGTTIN, SIGTTOU };
	char report[] = "report";
	char *argv[] = { strdup(t->options.hiwater), report, strdup(t->feed.path), NULL };
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	/* so that it does not count as a process of the job after the view's end */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void) sigemptyset(&none);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void) signal(ignored[i], SIG_DFL);
	(void) signal(SIGTSTP, SIG_IGN); /* no shell would send a SIGCONT if the job ignores it */
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	if (nice(NICE) == -1)
		errno = 0; /* not essential */
	(void) dup2(nothing, STDIN_FILENO);
	(void) dup2(out, STDOUT_FILENO);
	(void) dup2(out, STDERR_FILENO);
	(void) execv(t->options.hiwater, argv);
	_exit(127);
}

static void begin(struct top *t)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	t->report = (struct written) { .pid = fork(), .fd = ends[0] };
	if (t->report.pid == 0)
		become_report(t, ends[1]);
	(void) close(ends[1]);
	if (t->report.pid > 0) {
		(void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
		key_say(t, "writing the report");
		return;
	}
	(void) close(ends[0]);
	t->report = (struct written) { .fd = -1 };
	key_say(t, "the report could not be started");
}

void key_report(struct top *t, int key)
{
	(void) key;
	if (!t->feed.path || !t->options.hiwater || !*t->options.hiwater)
		key_say(t, "no recording here: start one with hiwater run or hiwater attach");
	else if (t->report.pid > 0)
		key_say(t, "writing the report");
	else
		begin(t);
}

/* Shows the first line of its output, cleaned: the name of the page, or the error. */
static void show_result(struct top *t, bool done)
{
	static const char prefix[] = "hiwater: ";
	struct written *w = &t->report;
	struct buf clean = BUF_INIT(1 << 16);
	const char *text = w->output;

	w->output[w->len < sizeof(w->output) ? w->len : sizeof(w->output) - 1] = '\0';
	w->output[strcspn(w->output, "\n")] = '\0';
	if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
		text += sizeof(prefix) - 1;
	(void) text_clean(text, t->screen.utf8, &clean);
	(void) snprintf(t->view.message, sizeof(t->view.message), "%s%s",
		done ? "written: " : "report failed: ", clean.len ? clean.data : "");
	buf_done(&clean);
}

static void end(struct top *t)
{
	struct written *w = &t->report;
	int status = -1;

	(void) close(w->fd);
	(void) waitpid(w->pid, &status, 0);
	show_result(t, status == 0);
	*w = (struct written) { .fd = -1 };
	t->redraw = true;
}

void report_step(struct top *t)
{
	struct written *w = &t->report;
	ssize_t n;

	do {
		char rest[256];
		const bool room = w->len < sizeof(w->output);

		n = read(w->fd, room ? w->output + w->len : rest,
			room ? sizeof(w->output) - w->len : sizeof(rest));
		if (n > 0 && room)
			w->len += (size_t) n;
	} while (n > 0);
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		end(t);
}

void report_leave(struct top *t, bool wait)
{
	struct pollfd fd = { .fd = t->report.fd, .events = POLLIN };

	if (t->report.pid <= 0)
		return;
	while (wait && t->report.pid > 0 && poll(&fd, 1, PATIENCE_MS) > 0)
		report_step(t);
	if (t->report.pid > 0) {
		(void) kill(t->report.pid, SIGKILL);
		end(t);
	}
	if (wait)
		(void) printf("hiwater: %s\n", t->view.message);
}
