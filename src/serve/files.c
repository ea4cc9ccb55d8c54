/* SPDX-License-Identifier: MIT */
#include "serve/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "serve/answers.h"

enum {
	TEXT_MOST = 64 << 20
};

/* Writes the text to path, complete or not at all. The collector ignores names that do not end with
 * .prom. */
static int replace(const char *path, const struct buf *text)
{
	char other[PATH_MAX];
	size_t done = 0;
	int r = 0;

	if (text->error)
		return text->error;
	if (snprintf(other, sizeof(other), "%s.%d.new", path, (int) getpid()) >= (int) sizeof(other))
		return -ENAMETOOLONG;
	(void) unlink(other);
	const int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return -errno;
	while (r == 0 && done < text->len) {
		const ssize_t n = write(fd, text->data + done, text->len - done);

		if (n < 0 && errno != EINTR)
			r = -errno;
		done += n > 0 ? (size_t) n : 0;
	}
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(other, path) < 0)
		r = -errno;
	if (r < 0)
		(void) unlink(other);
	return r;
}

static void name_metrics(const struct serve *s, char path[PATH_MAX])
{
	(void) snprintf(path, PATH_MAX, "%.4000s/hiwater.prom", s->o.textfile);
}

int files_prepare(const struct serve *s, char *why, size_t size)
{
	struct stat st;

	if (!s->o.textfile)
		return 0;
	if (stat(s->o.textfile, &st) == 0 && S_ISDIR(st.st_mode) && access(s->o.textfile, W_OK) == 0)
		return 0;
	(void) snprintf(why, size, "--textfile: %.200s is not a folder that can be written; give that of node_exporter's "
				   "--collector.textfile.directory",
		s->o.textfile);
	return -EINVAL;
}

void files_write_metrics(struct serve *s)
{
	const struct viewer stranger = { .sees_all = false };
	struct buf text = BUF_INIT(TEXT_MOST);
	char path[PATH_MAX];

	if (!s->o.textfile)
		return;
	pthread_mutex_lock(&s->lock);
	const bool ready = is_ready(s);

	if (ready)
		metrics_write(s, &stranger, true, &text);
	pthread_mutex_unlock(&s->lock);
	name_metrics(s, path);
	if (ready)
		(void) replace(path, &text);
	buf_done(&text);
}

int files_write_targets(
	const struct serve *s, const struct listener *listeners, size_t n, char *why, size_t size)
{
	struct buf text = BUF_INIT(TEXT_MOST);
	struct json j;
	int r;

	if (!s->o.sd_file)
		return 0;
	json_init(&j, &text, false);
	json_array(&j);
	json_object(&j);
	json_key(&j, "targets");
	json_array(&j);
	for (size_t i = 0; i < n; i++) {
		if (!*listeners[i].path)
			json_str(&j, listeners[i].address);
	}
	json_end(&j);
	json_key(&j, "labels");
	json_object(&j);
	json_key(&j, "__scheme__");
	json_str(&j, s->o.tls_cert ? "https" : "http");
	json_end(&j);
	json_end(&j);
	json_end(&j);
	(void) buf_str(&text, "\n");
	r = replace(s->o.sd_file, &text);
	if (r < 0)
		(void) snprintf(why, size, "--sd-file: cannot write %.200s: %s", s->o.sd_file, strerror(-r));
	buf_done(&text);
	return r;
}

void files_remove(const struct serve *s)
{
	char path[PATH_MAX];

	if (s->o.textfile) {
		name_metrics(s, path);
		(void) unlink(path);
	}
	if (s->o.sd_file)
		(void) unlink(s->o.sd_file);
}
