/* SPDX-License-Identifier: MIT
 *
 * The SIGBUS handler of hiwater's own programs. A program that links the library keeps its handlers.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/internal.h"
#include "record/index_guard.h"

/* The default action. A fault is raised again when the handler returns; a signal is not. */
static void give_up(int signal, bool is_fault)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };

	(void) sigaction(signal, &normal, NULL);
	if (!is_fault)
		(void) raise(signal); /* delivered when the handler returns */
}

/* To the main thread, with its sender. SI_USER and SI_TKILL may not be sent to another thread. */
static int pass_on(int signal, const siginfo_t *info)
{
	siginfo_t copy = *info;

	if (copy.si_code != SI_QUEUE)
		copy.si_code = SI_ASYNCIO;
	return (int) syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), signal, &copy);
}

static void handle(int signal, siginfo_t *info, void *context)
{
	(void) context;
	if (info->si_code > 0 && index_guard_fault(info->si_addr))
		return;
	/* Sent by a process: the thread that writes recordings does not block it, the main thread may,
	 * to read it and forward it to the job. */
	if (info->si_code <= 0 && syscall(SYS_gettid) != getpid() && pass_on(signal, info) == 0)
		return;
	give_up(signal, info->si_code > 0);
}

void hwi_guard_recordings(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART }, before;

	(void) sigemptyset(&action.sa_mask);
	/* What is ignored stays ignored, for the job as well. */
	if (sigaction(SIGBUS, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
		(void) sigaction(SIGBUS, &action, NULL);
}
