/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#include "source/drm/clients.h"

#define S UINT64_C(1000000000)

static bool all(const struct drm_card *card)
{
	(void) card;
	return true;
}

/* A machine with one card and made-up processes. */
struct rig {
	struct temp_tree t;
	struct root root;
	struct drm_cards cards;
	struct drm_clients *clients;
	uint64_t now;
};

static void rig_new(struct rig *rig, const char *uevent)
{
	*rig = (struct rig) { .now = 1000 * S };
	temp_tree_new(&rig->t);
	temp_tree_put(&rig->t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&rig->t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&rig->t, "proc/x", "");
	rig->root = temp_tree_root(&rig->t);
	assert_int_equal(drm_cards_scan(&rig->cards, &rig->root, all), 1);
	rig->clients = drm_clients_new(&rig->root, &rig->cards);
	assert_non_null(rig->clients);
}

static void rig_done(struct rig *rig)
{
	drm_clients_free(rig->clients);
	drm_cards_done(&rig->cards);
	root_done(&rig->root);
	temp_tree_done(&rig->t);
}

static void put_process(struct rig *rig, int pid, int start)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	snprintf(text, sizeof(text),
		"%d (x) S 1 %d %d 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 %d 1000 10 18446744073709551615 1 1 1 0 0 0\n",
		pid, pid, pid, start);
	temp_tree_put(&rig->t, path, text);
	snprintf(path, sizeof(path), "proc/%d/fd/x", pid);
	temp_tree_put(&rig->t, path, "");
}

/* A descriptor, and the lines of its fdinfo after driver and device. */
static void put_fd(struct rig *rig, int pid, int fd, int client, const char *rest)
{
	char path[256], text[1024];

	snprintf(path, sizeof(path), "proc/%d/fdinfo/%d", pid, fd);
	snprintf(text, sizeof(text), "drm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t%d\n%s",
		client, rest);
	temp_tree_put(&rig->t, path, text);
	snprintf(path, sizeof(path), "%s/proc/%d/fd/%d", rig->t.path, pid, fd);
	assert_true(symlink("/dev/dri/renderD128", path) == 0 || errno == EEXIST);
}

static const struct drm_use *scan(struct rig *rig, uint64_t passed, size_t n)
{
	size_t found;

	rig->now += passed;
	assert_int_equal(drm_clients_scan(rig->clients, rig->now), 0);
	const struct drm_use *uses = drm_clients_uses(rig->clients, &found);

	assert_int_equal(found, n);
	return uses;
}

#define XE "DRIVER=xe\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:03:00.0\n"

static void check_busiest(const struct drm_use *use, enum drm_class of, int64_t ppm)
{
	struct maybe busiest = drm_rates_busiest(use->rates, use->n_rates, of);

	assert_true(busiest.known);
	assert_int_equal(busiest.value, ppm);
}

static void time_and_capacity(void **state)
{
	(void) state;
	struct rig rig;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_fd(&rig, 10, 3, 1,
		"drm-engine-render:\t1000000000 ns\ndrm-engine-video:\t0 ns\ndrm-engine-capacity-video:\t2\n");
	assert_int_equal(scan(&rig, 0, 1)->n_rates, 0); /* a single scan gives no share */
	put_fd(&rig, 10, 3, 1,
		"drm-engine-render:\t1500000000 ns\ndrm-engine-video:\t3000000000 ns\ndrm-engine-capacity-video:\t2\n");
	const struct drm_use *use = scan(&rig, 2 * S, 1);

	check_busiest(use, DRM_COMPUTE, 250000);
	check_busiest(use, DRM_DECODE, 750000);
	assert_false(drm_rates_busiest(use->rates, use->n_rates, DRM_ENCODE).known);
	rig_done(&rig);
}

static void cycles_need_no_clock(void **state)
{
	(void) state;
	struct rig rig;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_fd(&rig, 10, 3, 1,
		"drm-cycles-ccs:\t100\ndrm-total-cycles-ccs:\t10000\ndrm-engine-capacity-ccs:\t4\n");
	scan(&rig, 0, 1);
	put_fd(&rig, 10, 3, 1,
		"drm-cycles-ccs:\t2100\ndrm-total-cycles-ccs:\t11000\ndrm-engine-capacity-ccs:\t4\n");
	check_busiest(scan(&rig, 77 * S, 1), DRM_COMPUTE, 500000);
	rig_done(&rig);
}

static void cycles_at_their_fastest(void **state)
{
	(void) state;
	struct rig rig;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_fd(&rig, 10, 3, 1, "drm-cycles-gpu:\t0\ndrm-maxfreq-gpu:\t800 MHz\n");
	scan(&rig, 0, 1);
	put_fd(&rig, 10, 3, 1, "drm-cycles-gpu:\t400000000\ndrm-maxfreq-gpu:\t800 MHz\n");
	check_busiest(scan(&rig, 2 * S, 1), DRM_COMPUTE, 250000);
	rig_done(&rig);
}

/* A counter that goes back did no work, and no work is counted twice when it catches up. */
static void a_counter_may_go_back(void **state)
{
	(void) state;
	static const int64_t at[] = { 1000, 500, 900, 1400, 0 };
	static const int64_t share[] = { 0, 0, 0, 400000, 0 }; /* of 1000 ns */
	struct rig rig;
	char text[64];

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	for (size_t i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "drm-engine-render:\t%lld ns\n", (long long) at[i]);
		put_fd(&rig, 10, 3, 1, text);
		const struct drm_use *use = scan(&rig, 1000, 1);

		if (i > 0)
			check_busiest(use, DRM_COMPUTE, share[i]);
	}
	rig_done(&rig);
}

/* Two clients of a process add up by engine; that exceeds 1 only for the sum of a device, which is
 * never reported. */
static void clients_of_a_process_add_up(void **state)
{
	(void) state;
	struct rig rig;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t0 ns\ndrm-resident-vram0:\t4 KiB\ndrm-resident-gtt:\t1\n");
	put_fd(&rig, 10, 4, 2, "drm-engine-rcs:\t0 ns\ndrm-resident-vram0:\t1 MiB\ndrm-resident-vram1:\t7\n");
	put_fd(&rig, 10, 5, 2, "drm-engine-rcs:\t0 ns\ndrm-resident-vram0:\t1 MiB\ndrm-resident-vram1:\t7\n");
	const struct drm_use *use = scan(&rig, 0, 1);

	assert_int_equal(use->device_bytes.value, 4096 + (1 << 20) + 7);
	assert_int_equal(use->host_bytes.value, 1);
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t300000000 ns\n");
	put_fd(&rig, 10, 4, 2, "drm-engine-rcs:\t400000000 ns\n");
	put_fd(&rig, 10, 5, 2, "drm-engine-rcs:\t400000000 ns\n");
	use = scan(&rig, S, 1);
	check_busiest(use, DRM_COMPUTE, 700000);
	assert_false(use->device_bytes.known); /* unknown is not zero */
	rig_done(&rig);
}

/* The opener ends; its child still has the client, and no work is counted twice. */
static void a_client_outlives_its_opener(void **state)
{
	(void) state;
	struct rig rig;
	char path[256];

	rig_new(&rig, XE);
	put_process(&rig, 20, 100);
	put_process(&rig, 10, 200);
	put_fd(&rig, 20, 3, 1, "drm-engine-rcs:\t1000000000 ns\n");
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t1000000000 ns\n");
	assert_int_equal(scan(&rig, 0, 1)->pid, 20);
	assert_int_equal(scan(&rig, S, 1)->pid, 20);
	assert_int_equal(nftw((snprintf(path, sizeof(path), "%s/proc/20", rig.t.path), path),
				 temp_tree_unlink, 16, FTW_DEPTH | FTW_PHYS),
		0);
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t1100000000 ns\n");
	const struct drm_use *use = scan(&rig, S, 1);

	assert_int_equal(use->pid, 10);
	check_busiest(use, DRM_COMPUTE, 100000);
	rig_done(&rig);
}

/* Reading a client's fdinfo could wake the device: the client keeps its values. */
static void clients_of_a_sleeping_card_are_not_read(void **state)
{
	(void) state;
	struct rig rig;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t0 ns\ndrm-resident-vram0:\t4 KiB\n");
	scan(&rig, 0, 1);
	temp_tree_put(&rig.t, "sys/class/drm/card0/device/power/runtime_status", "suspended\n");
	put_fd(&rig, 10, 3, 1, "drm-engine-rcs:\t9 ns\ndrm-resident-vram0:\t8 KiB\n");
	const struct drm_use *use = scan(&rig, S, 1);

	assert_int_equal(use->device_bytes.value, 4096);
	assert_int_equal(use->n_rates, 0);
	temp_tree_put(&rig.t, "sys/class/drm/card0/device/power/runtime_status", "active\n");
	assert_int_equal(scan(&rig, S, 1)->device_bytes.value, 8192);
	rig_done(&rig);
}

/* A process without clients is listed more and more rarely, and still found in time. */
static void a_client_opened_late_is_found(void **state)
{
	(void) state;
	struct rig rig;
	size_t found = 0;
	int looks = 0;

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	for (int i = 0; i < 40; i++)
		scan(&rig, S, 0);
	put_fd(&rig, 10, 3, 1, "drm-resident-vram0:\t4 KiB\n");
	for (; found == 0 && looks < 8; looks++) {
		assert_int_equal(drm_clients_scan(rig.clients, rig.now += S), 0);
		(void) drm_clients_uses(rig.clients, &found);
	}
	assert_int_equal(found, 1);
	assert_true(drm_clients_has(rig.clients, 0));
	rig_done(&rig);
}

static void processes_without_permission_are_absent(void **state)
{
	(void) state;
	struct rig rig;
	char path[256];
	uid_t uid = geteuid();

	rig_new(&rig, XE);
	put_process(&rig, 10, 5);
	put_process(&rig, 11, 6);
	put_fd(&rig, 10, 3, 1, "drm-resident-vram0:\t4 KiB\n");
	put_fd(&rig, 11, 3, 2, "drm-resident-vram0:\t8 KiB\n");
	snprintf(path, sizeof(path), "%s", rig.t.path);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/proc/11/fd", rig.t.path);
	assert_int_equal(chmod(path, uid == 0 ? 0700 : 0), 0);
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	size_t n;
	int r = drm_clients_scan(rig.clients, rig.now);
	const struct drm_use *uses = drm_clients_uses(rig.clients, &n);

	if (uid == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(r, 0);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(n, 1);
	assert_int_equal(uses[0].pid, 10);
	assert_true(drm_clients_was_refused(rig.clients));
	rig_done(&rig);
}

static void engines_by_name(void **state)
{
	(void) state;
	static const struct {
		const char *name;
		enum drm_class of;
	} engines[] = {
		{ "render", DRM_COMPUTE },
		{ "gfx", DRM_COMPUTE },
		{ "compute", DRM_COMPUTE },
		{ "ccs", DRM_COMPUTE },
		{ "fragment", DRM_COMPUTE },
		{ "gpu", DRM_COMPUTE },
		{ "csd", DRM_COMPUTE },
		{ "copy", DRM_COPY },
		{ "bcs", DRM_COPY },
		{ "dma", DRM_COPY },
		{ "enc", DRM_ENCODE },
		{ "enc_1", DRM_ENCODE },
		{ "dec", DRM_DECODE },
		{ "video", DRM_DECODE },
		{ "video-enhance", DRM_ENCODE },
		{ "vcs", DRM_DECODE },
	};

	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		assert_int_equal(drm_class_of(engines[i].name), engines[i].of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_and_capacity),
		cmocka_unit_test(cycles_need_no_clock),
		cmocka_unit_test(cycles_at_their_fastest),
		cmocka_unit_test(a_counter_may_go_back),
		cmocka_unit_test(clients_of_a_process_add_up),
		cmocka_unit_test(a_client_outlives_its_opener),
		cmocka_unit_test(clients_of_a_sleeping_card_are_not_read),
		cmocka_unit_test(a_client_opened_late_is_found),
		cmocka_unit_test(processes_without_permission_are_absent),
		cmocka_unit_test(engines_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
