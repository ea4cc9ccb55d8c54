// SPDX-License-Identifier: MIT
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool file_get(const char *path, char *ret, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	if (fd >= 0)
		close(fd);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The pid in text: a number, $NAME, @FILE; the value of $NAME may be an @FILE. */
static unsigned pid_parse(const char *text)
{
	char value[4096], digits[32];

	if (!fake_expanded(text + (text[0] == '@'), value, sizeof(value)))
		return 0;
	if (text[0] == '@' || value[0] == '@')
		return file_get(value + (value[0] == '@'), digits, sizeof(digits))
			       ? (unsigned) strtoul(digits, NULL, 10)
			       : 0;
	return (unsigned) strtoul(value, NULL, 10);
}

static bool is_there(unsigned pid)
{
	return pid > 0 && (kill((pid_t) pid, 0) == 0 || errno == EPERM);
}

/* A file is not read again while the process that it named exists. */
bool fake_process_lives(const struct fake_item *process, double t, unsigned *ret_pid)
{
	const char *text = fake_bag_text(&process->bag, "pid", "0");
	unsigned *named = process->named;

	if (t < fake_bag_number(&process->bag, "from", t, t) ||
		t >= fake_bag_number(&process->bag, "until", t, t + 1))
		return false;
	if (text[0] != '$' && text[0] != '@') {
		*ret_pid = pid_parse(text);
		return true;
	}
	if (!is_there(__atomic_load_n(named, __ATOMIC_RELAXED)))
		__atomic_store_n(named, pid_parse(text), __ATOMIC_RELAXED);
	*ret_pid = __atomic_load_n(named, __ATOMIC_RELAXED);
	return is_there(*ret_pid);
}
