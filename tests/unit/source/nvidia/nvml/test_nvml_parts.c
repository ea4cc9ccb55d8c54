/* SPDX-License-Identifier: MIT
 *
 * Parts of the NVML source that need no driver: decoding of its output.
 */
#include "tree_helper.h"

#include <math.h>

#include "source/nvidia/cuda/order.h"
#include "source/nvidia/nvml/fields.h"
#include "source/nvidia/nvml/gpm.h"
#include "source/nvidia/nvml/integrals.h"
#include "source/nvidia/nvml/processes.h"
#include "source/nvidia/nvml/tables.h"

#define NONE NVML_NONE_U32

/* ---- process lists --------------------------------------------------------------------------- */

struct entry {
	uint32_t pid;
	uint64_t bytes;
	uint32_t gi, ci;
};

/* As a driver writes n entries of stride bytes into room that holds the pattern. */
static void write_list(uint8_t *room, size_t size, const struct entry *entries, size_t n, size_t stride)
{
	memset(room, NVML_PATTERN, size);
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = room + i * stride;

		memset(p, 0, stride);
		memcpy(p, &entries[i].pid, 4);
		memcpy(p + 8, &entries[i].bytes, 8);
		if (stride == NVML_ENTRY_V1)
			continue;
		memcpy(p + 16, &entries[i].gi, 4);
		memcpy(p + 20, &entries[i].ci, 4);
	}
}

static void the_stride_shows_in_what_was_written(void **state)
{
	(void) state;
	const struct entry entries[] = { { 10, 1000, NONE, NONE }, { 20, 2000, 3, 1 },
		{ 30, 3000, NONE, NONE } };
	uint8_t room[8 * NVML_ENTRY_LONG];
	struct nvml_listed list[8];

	for (size_t n = 0; n <= 3; n++) {
		for (size_t stride = NVML_ENTRY; stride <= NVML_ENTRY_LONG; stride += 8) {
			write_list(room, sizeof(room), entries, n, stride);
			size_t found = nvml_list_stride(room, sizeof(room), n, false);

			if (n > 0)
				assert_int_equal(found, stride);
			assert_int_equal(nvml_list_decode(room, n, found, list), n);
			for (size_t i = 0; i < n; i++) {
				assert_int_equal(list[i].pid, entries[i].pid);
				assert_int_equal(list[i].bytes, entries[i].bytes);
				assert_int_equal(list[i].gpu_instance, entries[i].gi);
				assert_int_equal(list[i].compute_instance, entries[i].ci);
			}
		}
	}
	/* A driver that fills the whole buffer gives no hint about the length. */
	memset(room, 0, sizeof(room));
	assert_int_equal(nvml_list_stride(room, sizeof(room), 2, false), NVML_ENTRY);
	assert_int_equal(nvml_list_stride(room, sizeof(room), 2, true), NVML_ENTRY_LONG);
}

static void the_oldest_entries_have_no_instances(void **state)
{
	(void) state;
	const struct entry entries[] = { { 10, 1000, 0, 0 }, { 0, 7, 0, 0 }, { 30, UINT64_MAX, 0, 0 } };
	uint8_t room[4 * NVML_ENTRY_LONG];
	struct nvml_listed list[4];

	write_list(room, sizeof(room), entries, 3, NVML_ENTRY_V1);
	assert_int_equal(nvml_list_decode(room, 3, NVML_ENTRY_V1, list), 2); /* pid 0 is unused */
	assert_int_equal(list[1].pid, 30);
	assert_int_equal(list[1].gpu_instance, NONE);
	assert_true(list[1].bytes == NVML_NONE_U64);
}

static void a_pid_in_several_lists_counts_once(void **state)
{
	(void) state;
	struct nvml_listed list[] = {
		{ 30, 300, NONE, NONE, true, false },
		{ 10, NVML_NONE_U64, NONE, NONE, true, false },
		{ 30, 500, NONE, NONE, false, true },
		{ 20, 0, NONE, NONE, true, false },
		{ 10, 100, NONE, NONE, false, true },
		{ 30, 400, NONE, NONE, true, false },
	};

	assert_int_equal(nvml_list_merge(list, 6), 3);
	assert_int_equal(list[0].pid, 10);
	assert_int_equal(list[0].bytes, 100);
	assert_int_equal(list[1].pid, 20);
	assert_true(list[1].bytes == NVML_NONE_U64); /* 0 bytes: unknown */
	assert_int_equal(list[2].pid, 30);
	assert_int_equal(list[2].bytes, 500); /* the largest, not the sum */
	assert_true(list[2].compute && list[2].graphics);
	assert_int_equal(nvml_list_merge(list, 0), 0);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void check_number(struct nvml_field_value v, int code, uint64_t value, uint64_t wraps)
{
	uint64_t number = 0, at = 0;

	assert_int_equal(nvml_field_number(&v, &number, &at), code);
	assert_true(number == value && at == wraps);
}

static void a_field_says_its_type(void **state)
{
	(void) state;
#define V(t, member, x) ((struct nvml_field_value) { .type = t, .value.member = x })
	check_number(V(NVML_U32, u32, 7), 0, 7, 1ULL << 32);
	check_number(V(NVML_U16, u16, 7), 0, 7, 1ULL << 16);
	check_number(V(NVML_U64, u64, 1ULL << 40), 0, 1ULL << 40, 0);
	check_number(V(NVML_ULONG, u64, 9), 0, 9, 0);
	check_number(V(NVML_DOUBLE, d, 12.75), 0, 12, 0);
	check_number(V(NVML_S32, s32, 5), 0, 5, 0);
	check_number(V(NVML_S32, s32, -5), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_S64, s64, -1), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_U64, u64, UINT64_MAX), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_U32, u32, UINT32_MAX), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_DOUBLE, d, NAN), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_DOUBLE, d, -0.5), NVML_NO_DATA, 0, 0);
	check_number(V(NVML_DOUBLE, d, 1e300), NVML_NO_DATA, 0, 0);
	check_number(V(77, u64, 3), NVML_NO_DATA, 0, 0);
	check_number((struct nvml_field_value) { .type = NVML_U64, .code = 3 }, NVML_NOT_SUPPORTED, 0, 0);
#undef V
}

/* A driver with one counting field: its next value. */
static struct {
	enum nvml_type type;
	uint64_t value;
	int code;
} answer;

static int say_fields(void *device, int n, struct nvml_field_value *values)
{
	(void) device;
	for (int i = 0; i < n; i++) {
		values[i].type = answer.type;
		values[i].code = (uint32_t) answer.code;
		values[i].value.u64 = answer.value;
	}
	return NVML_SUCCESS;
}

static int say_nothing(void *device, int n, struct nvml_field_value *values)
{
	(void) device;
	(void) n;
	(void) values;
	return NVML_SUCCESS;
}

static uint64_t counted(struct nvml_fields *f, const struct nvml *nvml, enum nvml_type type, uint64_t value)
{
	answer.type = type;
	answer.value = value;
	answer.code = NVML_SUCCESS;
	assert_int_equal(nvml_fields_read(nvml, NULL, f), NVML_SUCCESS);
	assert_int_equal(f->code[FIELD_PCIE_TX], NVML_SUCCESS);
	return f->value[FIELD_PCIE_TX];
}

static void a_counter_goes_on_over_a_wrap(void **state)
{
	(void) state;
	const struct nvml nvml = { .env = &(struct source_env) { 0 }, .fields = say_fields };
	struct nvml_fields f = { 0 };

	assert_int_equal(counted(&f, &nvml, NVML_U32, 4000000000), 4000000000);
	assert_int_equal(counted(&f, &nvml, NVML_U32, 100), 4294967396);
	assert_int_equal(counted(&f, &nvml, NVML_U32, 4000000000), 2 * (1ULL << 32) - 294967296);
	f = (struct nvml_fields) { 0 };
	assert_int_equal(counted(&f, &nvml, NVML_U64, 1ULL << 40), 1ULL << 40);
	assert_int_equal(counted(&f, &nvml, NVML_U64, 500), 1ULL << 40); /* a reset */
	assert_int_equal(counted(&f, &nvml, NVML_U64, 700), (1ULL << 40) + 200);
	nvml_fields_restart(&f); /* another driver, which started at 0 */
	assert_int_equal(counted(&f, &nvml, NVML_U64, 50), (1ULL << 40) + 250);
}

static void a_field_that_is_not_here_is_not_asked_again(void **state)
{
	(void) state;
	struct nvml nvml = { .env = &(struct source_env) { 0 }, .fields = say_fields };
	struct nvml_fields f = { 0 };

	answer.code = NVML_NO_DATA;
	(void) nvml_fields_read(&nvml, NULL, &f);
	assert_false(f.absent[FIELD_PCIE_TX]);
	answer.code = NVML_NOT_SUPPORTED;
	(void) nvml_fields_read(&nvml, NULL, &f);
	for (int i = 0; i < NVML_FIELDS; i++)
		assert_true(f.absent[i]);
	nvml.fields = NULL;
	assert_int_equal(nvml_fields_read(&nvml, NULL, &f), NVML_SUCCESS); /* no field to read */
	f = (struct nvml_fields) { 0 };
	nvml.fields = say_nothing;
	(void) nvml_fields_read(&nvml, NULL, &f);
	assert_int_equal(f.code[FIELD_PCIE_TX], NVML_UNKNOWN); /* an untouched field is not zero */
}

static void a_percentage_is_one_or_unknown(void **state)
{
	(void) state;
	static const double none[] = { -0.001, 100.6, 655, NAN, INFINITY, -INFINITY };

	assert_int_equal(nvml_gpm_ppm(0).value, 0);
	assert_true(nvml_gpm_ppm(0).known);
	assert_int_equal(nvml_gpm_ppm(12.34567).value, 123457);
	assert_int_equal(nvml_gpm_ppm(100.2).value, 1000000);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(nvml_gpm_ppm(none[i]).known);
}

static void reasons_are_told_apart(void **state)
{
	(void) state;
	static const struct {
		uint64_t mask;
		bool power, thermal, hw, other;
	} cases[] = { { 0x0, false, false, false, false }, { 0x1 | 0x2 | 0x100, false, false, false, false },
		{ 0x4, true, false, false, false }, { 0x20, false, true, false, false },
		{ 0x48, false, true, false, false }, { 0x28, false, true, false, false },
		{ 0x8, false, false, true, false }, { 0xc8, false, true, true, false },
		{ 0x80, false, false, true, false }, { 0x10, false, false, false, true },
		{ 0x604, true, false, false, true } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is[NVML_REASONS];

		nvml_reasons_of(cases[i].mask, is);
		assert_int_equal(is[REASON_POWER], cases[i].power);
		assert_int_equal(is[REASON_THERMAL], cases[i].thermal);
		assert_int_equal(is[REASON_HW], cases[i].hw);
		assert_int_equal(is[REASON_OTHER], cases[i].other);
		assert_int_equal(is[REASON_HW_THERMAL], (cases[i].mask & 0x40) != 0);
	}
}

static void every_code_means_something(void **state)
{
	(void) state;

	for (int code = 1; code < 1000; code++) {
		assert_int_not_equal(nvml_code(code)->meaning, NVML_FINE);
		assert_true(*nvml_code(code)->why);
	}
	assert_int_equal(nvml_code(0)->meaning, NVML_FINE);
	assert_int_equal(nvml_code(777)->meaning, NVML_NOT_NOW);
	assert_int_equal(nvml_code(NVML_NOT_SUPPORTED)->meaning, NVML_ABSENT);
	assert_int_equal(nvml_code(NVML_GPU_IS_LOST)->meaning, NVML_LOST);
}

static void xids_and_specs_have_words(void **state)
{
	(void) state;
	char text[128];

	xid_text(79, text, sizeof(text));
	assert_string_equal(text, "Xid 79: the GPU has fallen off the bus");
	xid_text(999, text, sizeof(text));
	assert_string_equal(text, "Xid 999");
	assert_null(nvml_spec_of(99, 0));
	/* H100 SXM: 132 SMs, 16896 cores; A100: 108, 6912; RTX 4090: 128, 16384; V100: 80, 5120
	 * (NVIDIA's white papers) */
	assert_int_equal(16896 / nvml_spec_of(9, 0)->cores, 132);
	assert_int_equal(6912 / nvml_spec_of(8, 0)->cores, 108);
	assert_int_equal(16384 / nvml_spec_of(8, 9)->cores, 128);
	assert_int_equal(5120 / nvml_spec_of(7, 0)->cores, 80);
}

/* ---- CUDA's numbers -------------------------------------------------------------------------- */

static const struct cuda_device machine[] = {
	{ "GPU-bb00", "0000:81:00.0", "A", "", false, 0, 0, 0 },
	{ "GPU-aa11", "0000:3b:00.0", "A", "", false, 0, 0, 0 },
	{ "GPU-aa22", "0000:02:00.0", "A", "", true, 0, 0, 0 },
	{ "MIG-cc2", "0000:02:00.0", "A 1g", "GPU-aa22", false, 2, 9, 0 },
	{ "MIG-cc1", "0000:02:00.0", "A 3g", "GPU-aa22", false, 1, 4, 1 },
};

static void cuda_counts_in_pci_order(void **state)
{
	(void) state;
	size_t order[5];

	assert_int_equal(cuda_order(machine, 5, CUDA_PCI_BUS_ID, order), 3);
	/* the first instance replaces its GPU */
	assert_true(order[0] == 4 && order[1] == 1 && order[2] == 0);
	assert_int_equal(cuda_order(machine, 2, CUDA_FASTEST_FIRST, order), 2); /* all alike */
	assert_true(order[0] == 1 && order[1] == 0);
	struct cuda_device unlike[] = { machine[0], machine[1] };

	unlike[1].name = "B";
	assert_int_equal(cuda_order(unlike, 2, CUDA_FASTEST_FIRST, order), -EAGAIN);
	assert_int_equal(cuda_order(unlike, 2, CUDA_PCI_BUS_ID, order), 2);
	unlike[1].pci = "";
	assert_int_equal(cuda_order(unlike, 2, CUDA_PCI_BUS_ID, order), -EAGAIN);
	assert_int_equal(cuda_order(unlike, 0, CUDA_FASTEST_FIRST, order), 0);
	assert_int_equal(cuda_ordering_of(NULL), CUDA_FASTEST_FIRST);
	assert_int_equal(cuda_ordering_of("PCI_BUS_ID"), CUDA_PCI_BUS_ID);
	assert_int_equal(cuda_ordering_of("pci_bus_id"), CUDA_FASTEST_FIRST);
}

static void cuda_visible_devices_selects(void **state)
{
	(void) state;
	static const struct cuda_device list[] = {
		{ "GPU-aa11", "0000:01:00.0", "A", "", false, 0, 0, 0 },
		{ "GPU-aa22", "0000:02:00.0", "A", "", false, 0, 0, 0 },
		{ "GPU-bb33", "0000:03:00.0", "A", "", false, 0, 0, 0 },
	};
	static const struct {
		const char *value;
		ssize_t n;
		size_t which[3];
	} cases[] = { { NULL, 3, { 0, 1, 2 } }, { "", 0, { 0 } }, { "2,0", 2, { 2, 0 } },
		{ " 1 , 2 ", 2, { 1, 2 } }, { "-1", 0, { 0 } }, { "0,7,1", 1, { 0 } }, { "1,1", 0, { 0 } },
		{ "0,x,1", 1, { 0 } }, { "GPU-bb", 1, { 2 } }, { "GPU-aa", 0, { 0 } },
		{ "GPU-aa2,GPU-aa1", 2, { 1, 0 } }, { "2,GPU-aa1", 1, { 2 } }, { "GPU-aa1,2", 1, { 0 } },
		{ "1,MIG-1", 1, { 1 } }, { "NoDevFiles", 0, { 0 } }, { "0,,1", 1, { 0 } },
		{ "0x1", 0, { 0 } }, { "99999999999999999999", 0, { 0 } } };
	const size_t order[] = { 0, 1, 2 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t ret[3];
		ssize_t n = cuda_visible(list, 3, order, 3, cases[i].value, ret);

		if (n != cases[i].n)
			fail_msg("%s: %zd", cases[i].value, n);
		for (ssize_t k = 0; k < n; k++)
			assert_int_equal(ret[k], cases[i].which[k]);
	}
}

static void a_process_sees_one_instance(void **state)
{
	(void) state;
	static const struct {
		const char *value;
		ssize_t n;
		size_t which;
	} cases[] = { { "MIG-cc2", 1, 3 }, { "MIG-cc", 0, 0 }, { "MIG-cc1,MIG-cc2", 1, 4 },
		{ "MIG-GPU-aa22/9/0", 1, 3 }, { "MIG-GPU-aa22/9/1", 0, 0 }, { "MIG-GPU-aa22", 0, 0 },
		{ "MIG-GPU-/9/0", 0, 0 }, { "GPU-aa22", 1, 4 }, { "0", 1, 4 }, { "1", 1, 1 },
		{ "1,0", 1, 4 } };
	size_t order[5], ret[5];
	ssize_t n_order = cuda_order(machine, 5, CUDA_PCI_BUS_ID, order);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ssize_t n = cuda_visible(machine, 5, order, (size_t) n_order, cases[i].value, ret);

		if (n != cases[i].n || (n && ret[0] != cases[i].which))
			fail_msg("%s: %zd", cases[i].value, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_stride_shows_in_what_was_written),
		cmocka_unit_test(the_oldest_entries_have_no_instances),
		cmocka_unit_test(a_pid_in_several_lists_counts_once),
		cmocka_unit_test(a_field_says_its_type),
		cmocka_unit_test(a_counter_goes_on_over_a_wrap),
		cmocka_unit_test(a_field_that_is_not_here_is_not_asked_again),
		cmocka_unit_test(a_percentage_is_one_or_unknown),
		cmocka_unit_test(reasons_are_told_apart),
		cmocka_unit_test(every_code_means_something),
		cmocka_unit_test(xids_and_specs_have_words),
		cmocka_unit_test(cuda_counts_in_pci_order),
		cmocka_unit_test(cuda_visible_devices_selects),
		cmocka_unit_test(a_process_sees_one_instance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
