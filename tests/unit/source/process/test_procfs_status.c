/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "source/process/procfs_status.h"

static const char whole[] =
	"Name:\tpy\\n(x)\n"
	"Umask:\t0022\n"
	"State:\tS (sleeping)\n"
	"Tgid:\t4711\n"
	"Ngid:\t0\n"
	"Pid:\t4711\n"
	"PPid:\t4000\n"
	"TracerPid:\t0\n"
	"Uid:\t1000\t1001\t1002\t1003\n"
	"Gid:\t100\t100\t100\t100\n"
	"NStgid:\t4711\n"
	"VmPeak:\t   99999 kB\n"
	"VmPeak:\t   91234 kB\n"
	"VmHWM:\t    5678 kB\n"
	"VmData:\t     812 kB\n"
	"VmRSS:\t    1234 kB\n"
	"VmSwap:\t      12 kB\n"
	"HugetlbPages:\t    2048 kB\n"
	"Threads:\t3\n"
	"SigIgn:\t0000000000010000\n"
	"SigCgt:\t0000000000000000\n"
	"voluntary_ctxt_switches:\t150\n"
	"nonvoluntary_ctxt_switches:\t545\n";

static void each_line_has_its_place(void **state)
{
	struct procfs_status st;

	(void) state;
	assert_int_equal(procfs_status_parse(whole, &st), 0);
	assert_string_equal(st.name, "py\\n(x)");
	assert_true(st.tgid.known && st.tgid.value == 4711);
	assert_true(st.ppid.known && st.ppid.value == 4000);
	assert_true(st.uid.known && st.uid.value == 1000);
	assert_true(st.hwm_bytes.known && st.hwm_bytes.value == 5678 * 1024);
	assert_true(st.vm_peak_bytes.known && st.vm_peak_bytes.value == 91234 * 1024);
	assert_true(st.data_bytes.known && st.data_bytes.value == 812 * 1024);
	assert_true(st.rss_bytes.known && st.rss_bytes.value == 1234 * 1024);
	assert_true(st.swap_bytes.known && st.swap_bytes.value == 12 * 1024);
	assert_true(st.hugetlb_bytes.known && st.hugetlb_bytes.value == 2048 * 1024);
	assert_true(st.threads.known && st.threads.value == 3);
	assert_true(st.switches.known && st.switches.value == 150);
	assert_true(st.preemptions.known && st.preemptions.value == 545);
	assert_true(st.ignores_sigchld);
}

/* A zombie and a kernel thread have no Vm lines. */
static void missing_lines_are_unknown(void **state)
{
	struct procfs_status st;

	(void) state;
	assert_int_equal(procfs_status_parse(
				 "Name:\tkthreadd\nTgid:\t2\nThreads:\t1\nSigIgn:\tfffffffffffeffff\n", &st),
		0);
	assert_false(st.hwm_bytes.known);
	assert_false(st.rss_bytes.known);
	assert_false(st.swap_bytes.known);
	assert_false(st.hugetlb_bytes.known);
	assert_false(st.switches.known);
	assert_false(st.ignores_sigchld);
}

static void nonsense_is_unknown(void **state)
{
	struct procfs_status st;

	(void) state;
	assert_int_equal(procfs_status_parse(
				 "Tgid:\t2\nVmHWM:\tx kB\nVmRSS:\t-1 kB\nVmSwap:\t99999999999999999999 kB\n"
				 "HugetlbPages:\t18014398509481984 kB\nThreads:\t\nUid:\n",
				 &st),
		0);
	assert_false(st.hwm_bytes.known);
	assert_false(st.rss_bytes.known);
	assert_false(st.swap_bytes.known);
	assert_false(st.hugetlb_bytes.known);
	assert_false(st.threads.known);
	assert_false(st.uid.known);
}

static void without_a_tgid_it_is_refused(void **state)
{
	static const char *const texts[] = { "", "\n", "Name:\tx\n", "Tgid:\tx\n", "Tgid:\t\n",
		"Tgid:\t99999999999\n", "tgid:\t1\n" };
	struct procfs_status st = { .name = "before" };

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(procfs_status_parse(texts[i], &st), -EBADMSG);
		assert_string_equal(st.name, "before");
	}
}

/* Truncated anywhere: refused, or each number is complete or unknown. */
static void truncated_numbers_are_ignored(void **state)
{
	char text[sizeof(whole)];
	struct procfs_status st;

	(void) state;
	for (size_t n = 0; n < sizeof(whole); n++) {
		memcpy(text, whole, n);
		text[n] = '\0';
		if (procfs_status_parse(text, &st) < 0)
			continue;
		assert_int_equal(st.tgid.value, 4711);
		assert_true(!st.ppid.known || st.ppid.value == 4000);
		assert_true(!st.uid.known || st.uid.value == 1000);
		assert_true(!st.hwm_bytes.known || st.hwm_bytes.value == 5678 * 1024);
		assert_true(!st.switches.known || st.switches.value == 150);
		assert_true(!st.preemptions.known || st.preemptions.value == 545);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_has_its_place),
		cmocka_unit_test(missing_lines_are_unknown),
		cmocka_unit_test(nonsense_is_unknown),
		cmocka_unit_test(without_a_tgid_it_is_refused),
		cmocka_unit_test(truncated_numbers_are_ignored),
	};

	return cmocka_run_group_tests_name("procfs_status", tests, NULL, NULL);
}
