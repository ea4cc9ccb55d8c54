/* SPDX-License-Identifier: MIT
 *
 * The lines of the sampler of run --where, as the recorder receives them: what is passed on is within its bounds. The feed is
 * a part of this program, so that no other has to be started for it.
 */
#include "where/feed.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

static size_t length; /* of all texts, so that they are read */

static int see_frame(void *ctx, uint32_t number, const struct where_frame *frame)
{
	(void) ctx;
	REQUIRE(number > 0 && number <= WHERE_FRAMES);
	length += strlen(frame->module) + strlen(frame->build_id) + strlen(frame->function) + strlen(frame->file);
	return 0;
}

static int see_stack(void *ctx, uint32_t number, const struct where_stack *stack)
{
	(void) ctx;
	REQUIRE(number > 0 && number <= WHERE_STACKS && stack->parent < number);
	REQUIRE(stack->frame > 0 && stack->frame <= WHERE_FRAMES);
	return 0;
}

static int see_process(void *ctx, uint32_t number, const struct where_process *process)
{
	(void) ctx;
	REQUIRE(number > 0 && number <= WHERE_PROCESSES && process->pid >= 0 && process->rank == -1);
	length += strlen(process->name);
	return 0;
}

static int see_high(void *ctx, uint32_t number, const struct where_high *high)
{
	(void) ctx;
	REQUIRE(number > 0 && high->n_rows <= ROWS_MOST && high->n_files <= FILES_MOST);
	REQUIRE(high->time_ns <= INT64_MAX && high->total_bytes <= INT64_MAX && high->lost <= INT64_MAX);
	for (size_t i = 0; i < high->n_rows; i++) {
		REQUIRE(high->rows[i].stack <= WHERE_STACKS && high->rows[i].process <= WHERE_PROCESSES);
		REQUIRE(high->rows[i].bytes <= INT64_MAX && high->rows[i].n <= INT64_MAX);
	}
	for (size_t i = 0; i < high->n_files; i++)
		length += strlen(high->files[i].name);
	return 0;
}

static int see_drop(void *ctx, uint32_t number)
{
	(void) ctx;
	REQUIRE(number > 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct where_sink sink = { .frame = see_frame, .stack = see_stack, .process = see_process, .high = see_high, .drop = see_drop };
	static const struct where_feed_options options = { .program = "/" };
	struct where_feed *const f = where_feed_new(&options);
	char note[WHERE_NOTE];
	int ends[2];

	if (!f || size > 1 << 16 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		where_feed_free(f);
		return 0;
	}
	f->fd = ends[0];
	REQUIRE(send(ends[1], data, size, 0) == (ssize_t) size);
	REQUIRE(close(ends[1]) == 0);
	where_feed_begin(f, 1000);
	REQUIRE(where_feed_drain(f, true, &sink) == 0);
	where_feed_note(f, note);
	REQUIRE(strnlen(note, sizeof(note)) < sizeof(note));
	where_feed_free(f);
	return 0;
}
