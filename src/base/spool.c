/* SPDX-License-Identifier: MIT
 *
 * The file consists of chunks of one size. A chunk has the number of its records and the position
 * of its stream's next chunk, which is reserved when the chunk is written.
 */
#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum {
	MOST_STREAMS = 1 << 24
};

struct chunk {
	uint64_t next;       /* position of the stream's next chunk; 0: none */
	uint32_t n;
	uint32_t unused;
	char records[SPOOL_CHUNK - 16];
};
_Static_assert(sizeof(struct chunk) == SPOOL_CHUNK, "no holes");

struct spool_stream {
	struct chunk *chunk; /* the chunk being filled; NULL: none */
	/* positions of the first and the current chunk; SPOOL_CHUNK is the first position of the
	 * file */
	uint64_t first, at;
};

static int make_file(const char *folder)
{
	char path[4096];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (snprintf(path, sizeof(path), "%s/hiwater-XXXXXX", folder) >= (int) sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void) unlink(path);
	return fd;
}

int spool_open(struct spool *s, size_t record_bytes, struct err *err)
{
	const char *folder = getenv("TMPDIR");

	folder = folder && *folder ? folder : "/var/tmp";
	*s = (struct spool) { .fd = make_file(folder), .record = record_bytes, .end = SPOOL_CHUNK };
	if (s->fd < 0)
		return err_set(err, s->fd,
			"cannot create a temporary file in %s: %s; set TMPDIR to a folder with room", folder,
			strerror(-s->fd));
	return 0;
}

void spool_done(struct spool *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->streams[i].chunk);
	free(s->streams);
	if (s->fd >= 0)
		(void) close(s->fd);
	*s = (struct spool) { .fd = -1 };
}

static uint64_t allocate_place(struct spool *s)
{
	const uint64_t at = s->end;

	s->end += SPOOL_CHUNK;
	return at;
}

int spool_new(struct spool *s)
{
	struct spool_stream *stream;

	if (s->error == 0)
		s->error = vec_reserve(&s->streams, &s->cap, s->n, sizeof(*s->streams), MOST_STREAMS);
	if (s->error)
		return s->error;
	stream = &s->streams[s->n];
	*stream = (struct spool_stream) { .first = allocate_place(s) };
	stream->at = stream->first;
	return (int) s->n++;
}

static void flush(struct spool *s, struct spool_stream *stream)
{
	ssize_t n;

	stream->chunk->next = allocate_place(s);
	n = pwrite(s->fd, stream->chunk, SPOOL_CHUNK, (off_t) stream->at);
	if (n != SPOOL_CHUNK && s->error == 0)
		s->error = n < 0 ? -errno : -ENOSPC;
	stream->at = stream->chunk->next;
	stream->chunk->n = 0;
}

void spool_put(struct spool *s, int number, const void *record)
{
	struct spool_stream *stream;

	if (s->error || number < 0)
		return;
	stream = &s->streams[number];
	if (!stream->chunk)
		stream->chunk = calloc(1, sizeof(*stream->chunk));
	if (!stream->chunk) {
		s->error = -ENOMEM;
		return;
	}
	memcpy(stream->chunk->records + stream->chunk->n++ * s->record, record, s->record);
	if ((stream->chunk->n + 1) * s->record > sizeof(stream->chunk->records))
		flush(s, stream);
}

void spool_close(struct spool *s, int number)
{
	struct spool_stream *stream;

	if (s->error || number < 0)
		return;
	stream = &s->streams[number];
	if (stream->chunk && stream->chunk->n > 0)
		flush(s, stream);
	free(stream->chunk);
	stream->chunk = NULL;
}

void spool_each(struct spool *s, int number, void (*see)(void *ctx, const void *record), void *ctx)
{
	struct chunk chunk;
	uint64_t at, last;

	spool_close(s, number);
	if (s->error || number < 0)
		return;
	last = s->streams[number].at;
	for (at = s->streams[number].first; at != last; at = chunk.next) {
		if (pread(s->fd, &chunk, sizeof(chunk), (off_t) at) != sizeof(chunk)) {
			s->error = -EIO;
			return;
		}
		for (uint32_t i = 0; i < chunk.n; i++)
			see(ctx, chunk.records + i * s->record);
	}
}
