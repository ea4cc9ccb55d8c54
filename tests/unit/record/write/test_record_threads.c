/* SPDX-License-Identifier: MIT
 *
 * The recorder's thread and the writer's, for the thread sanitizer: calls everything that may run
 * concurrently.
 */
#include "record_rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "record/write/queue.h"

/* ---- the queue ------------------------------------------------------------------------------- */

enum {
	MESSAGES = 200000
};

struct taker {
	struct queue *queue;
	uint64_t taken, sum;
	bool finished;
};

static void *take_messages(void *arg)
{
	struct taker *t = arg;
	struct queue_state state = { 0 };

	while (!state.finish) {
		struct chunk *chunk = queue_pop(t->queue, t->taken % 2 ? 1000000 : 0, &state);

		while (chunk) {
			struct chunk *next = chunk->next;

			for (size_t at = 0; at < chunk->len; at += 32) {
				uint64_t value;

				memcpy(&value, chunk->data + at, sizeof(value));
				t->sum += value;
				t->taken++;
			}
			queue_return(t->queue, chunk);
			chunk = next;
		}
		(void) queue_is_waiting(t->queue);
	}
	t->finished = true;
	return NULL;
}

static void what_goes_in_comes_out(void **state)
{
	struct queue q;
	struct taker t = { .queue = &q };
	pthread_t thread;
	uint64_t sum = 0, put = 0, dropped = 0;

	(void) state;
	assert_int_equal(queue_init(&q, 1 << 20), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_messages, &t), 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		uint64_t *room = queue_room(&q, 20, false); /* rounded up to 32 */

		if (!room) {
			dropped++;
			continue;
		}
		*room = i;
		sum += i;
		put++;
		if (i % 97 == 0)
			queue_push(&q, true);
	}
	queue_push(&q, true);
	queue_set(&q, false, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(t.finished);
	assert_int_equal(t.taken, put);
	assert_int_equal(t.sum, sum);
	assert_int_equal(put + dropped, MESSAGES);
	queue_done(&q);
}

/* Without a consumer it fills up to its limit, not further, and reports it. */
static void a_full_queue_refuses(void **state)
{
	struct queue q;
	size_t n = 0;

	(void) state;
	assert_int_equal(queue_init(&q, 1 << 20), 0);
	while (queue_room(&q, 1000, false))
		n++;
	assert_in_range(n, (1 << 20) / 1008 - 64 - 16, (1 << 20) / 1008);
	assert_null(queue_room(&q, 2 << 20, false));
	assert_non_null(queue_room(&q, 1000, true)); /* the last totals always fit */
	assert_true(queue_is_waiting(&q) || q.used > 0);
	queue_push(&q, false);
	queue_done(&q);
}

/* ---- a recording ----------------------------------------------------------------------------- */

static void all_at_once(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 50 * MS, SEC, 5, true);
	r = rig_record(&(struct record_options) { .path = f.file, .max_bytes = 600000 });
	sim_into(&s, r);
	for (int k = 0; k < 4000; k++) {
		sim_tick(&s);
		if (k % 50 == 0)
			record_hurry(r, k % 100 == 0);
		(void) record_path(r);
		assert_false(record_trouble(r, &err));
		(void) record_dropped(r);
	}
	sim_end(&s);
	rig_finish(r, s.job);
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

static void readers_come_and_go(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;
	int read = 0;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 2000; k++) {
		struct replay *replay;
		struct job *job;

		sim_tick(&s);
		if (k % 40 || !record_path(r) || replay_open(f.file, &replay, NULL) < 0)
			continue;
		if (replay_job(replay, &job, NULL) == 0) {
			read++;
			job_free(job);
		}
		replay_close(replay);
	}
	sim_end(&s);
	rig_finish(r, s.job);
	print_message("read %d times while it grew\n", read);
	expect_sound(f.file);
	sim_done(&s);
	folder_done(&f);
}

static void a_forgotten_one_lets_its_thread_go(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 100; k++)
		sim_tick(&s);
	record_forget(r);
	sim_done(&s);
	folder_done(&f);
}

static void trouble_reaches_the_other_thread(void **state)
{
	struct rig_folder f;
	struct record *r;
	struct err err = { "" };
	struct sim s;
	bool told = false;

	(void) state;
	folder_new(&f);
	sim_new(&s, 100 * MS, SEC, 3, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	folder_done(&f);
	sim_into(&s, r);
	for (int k = 0; k < 100000 && !told; k++) {
		sim_tick(&s);
		told = record_trouble(r, &err);
	}
	assert_true(told);
	assert_true(record_finish(r, s.job, true, 60 * SEC, NULL, &err) < 0);
	sim_done(&s);
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;
static pthread_t catcher;

static void catch(int number)
{
	(void) number;
	caught += pthread_equal(pthread_self(), catcher) ? 1 : 1000;
}

/* A signal to the process is never delivered to the writer's thread. */
static void signals_are_the_recorders(void **state)
{
	struct sigaction action = { .sa_handler = catch }, before;
	struct rig_folder f;
	struct record *r;
	struct sim s;

	(void) state;
	folder_new(&f);
	catcher = pthread_self();
	caught = 0;
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	sim_new(&s, 100 * MS, SEC, 3, true);
	r = rig_record(&(struct record_options) { .path = f.file });
	sim_into(&s, r);
	for (int k = 0; k < 300; k++) {
		sim_tick(&s);
		if (k % 10 == 5)
			assert_int_equal(kill(getpid(), SIGUSR1), 0);
	}
	sim_end(&s);
	rig_finish(r, s.job);
	assert_int_equal(caught, 30);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	sim_done(&s);
	folder_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(a_full_queue_refuses),
		cmocka_unit_test(all_at_once),
		cmocka_unit_test(readers_come_and_go),
		cmocka_unit_test(a_forgotten_one_lets_its_thread_go),
		cmocka_unit_test(trouble_reaches_the_other_thread),
		cmocka_unit_test(signals_are_the_recorders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
