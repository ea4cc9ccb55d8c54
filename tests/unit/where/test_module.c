/* SPDX-License-Identifier: MIT
 *
 * Files with code, as they are and as a job may make them; and where they are mapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "where/events.h"
#include "where/module.h"

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

static struct rig {
	char folder[64], path[96], self[4096];
	int proc;
	struct modules *modules;
} rig;

static int set_up(void **state)
{
	ssize_t n;

	(void) state;
	memset(&rig, 0, sizeof(rig));
	(void) strcpy(rig.folder, "/tmp/hiwater-module-XXXXXX");
	assert_non_null(mkdtemp(rig.folder));
	(void) snprintf(rig.path, sizeof(rig.path), "%s/file", rig.folder);
	n = readlink("/proc/self/exe", rig.self, sizeof(rig.self) - 1);
	assert_true(n > 0);
	rig.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(rig.proc >= 0);
	rig.modules = modules_new(rig.proc);
	assert_non_null(rig.modules);
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	modules_free(rig.modules);
	(void) close(rig.proc);
	(void) remove(rig.path);
	assert_int_equal(rmdir(rig.folder), 0);
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool read_path(const char *path, struct module *ret)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is_module;

	assert_true(fd >= 0);
	memset(ret, 0, sizeof(*ret));
	is_module = module_read(fd, ret);
	assert_int_equal(close(fd), 0);
	assert_int_equal(is_module, ret->is_elf);
	assert_true(ret->n_segments <= MODULE_SEGMENTS);
	assert_true(memchr(ret->build_id, 0, sizeof(ret->build_id)) != NULL);
	return is_module;
}

static void write_file(const void *bytes, size_t n)
{
	const int fd = open(rig.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t) n);
	assert_int_equal(close(fd), 0);
}

static void the_build_id_is_readelfs(void **state)
{
	char command[5000], line[256], *id = NULL;
	struct module m;
	FILE *out;

	(void) state;
	assert_true(read_path(rig.self, &m));
	assert_true(m.n_segments >= 2);
	(void) snprintf(command, sizeof(command), "LC_ALL=C readelf -n '%s' 2>&1", rig.self);
	out = popen(command, "re");
	assert_non_null(out);
	while (!id && fgets(line, sizeof(line), out))
		id = strstr(line, "Build ID: ");
	while (fgetc(out) != EOF)
		;
	if (pclose(out) != 0) {
		print_message("no readelf here\n");
		skip();
	}
	if (id)
		id[strcspn(id, "\n")] = '\0';
	assert_string_equal(m.build_id, id ? id + strlen("Build ID: ") : "");
}

/* A file of one's own: a header, two segments and a note. */
struct elf {
	Elf64_Ehdr head;
	Elf64_Phdr segments[3];
	Elf64_Nhdr note;
	char name[4];
	unsigned char id[20];
};

static struct elf elf_new(void)
{
	struct elf e = { 0 };

	memcpy(e.head.e_ident, ELFMAG, SELFMAG);
	e.head.e_ident[EI_CLASS] = ELFCLASS64;
	e.head.e_type = ET_DYN;
	e.head.e_machine = MACHINE;
	e.head.e_phoff = offsetof(struct elf, segments);
	e.head.e_phentsize = sizeof(Elf64_Phdr);
	e.head.e_phnum = 3;
	e.segments[0] = (Elf64_Phdr) { .p_type = PT_LOAD, .p_filesz = 0x1000, .p_align = 4096 };
	e.segments[1] = (Elf64_Phdr) { .p_type = PT_LOAD, .p_offset = 0x1800, .p_vaddr = 0x3800, .p_filesz = 0x2000, .p_align = 4096 };
	e.segments[2] = (Elf64_Phdr) { .p_type = PT_NOTE, .p_offset = offsetof(struct elf, note), .p_filesz = 12 + 4 + 20 };
	e.note = (Elf64_Nhdr) { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };
	memcpy(e.name, "GNU", 4);
	memset(e.id, 0xab, sizeof(e.id));
	return e;
}

static bool read_elf(const struct elf *e, struct module *ret)
{
	write_file(e, sizeof(*e));
	return read_path(rig.path, ret);
}

static void a_file_of_ones_own(void **state)
{
	const struct elf e = elf_new();
	struct module m;

	(void) state;
	assert_true(read_elf(&e, &m));
	assert_int_equal(m.n_segments, 2);
	assert_int_equal(m.segments[1].offset, 0x1800);
	assert_int_equal(m.segments[1].address, 0x3800);
	assert_int_equal(m.first_address, 0);
	assert_string_equal(m.build_id, "abababababababababababababababababababab");
}

static void truncated_files_are_survived(void **state)
{
	const struct elf e = elf_new();
	struct module m;

	(void) state;
	for (size_t n = 0; n <= sizeof(e); n++) {
		write_file(&e, n);
		assert_int_equal(read_path(rig.path, &m), n >= offsetof(struct elf, segments[1]));
		assert_int_equal(m.build_id[0] != '\0', n >= offsetof(struct elf, id) + sizeof(e.id));
	}
}

static void what_is_no_program_of_this_machine(void **state)
{
	static const char script[] = "#!/bin/sh\nexit 0\n# and so on and so on and so on and so on and so on and so on";
	struct elf e = elf_new();
	struct module m;

	(void) state;
	write_file(script, sizeof(script));
	assert_false(read_path(rig.path, &m));
	e.head.e_ident[EI_CLASS] = ELFCLASS32;
	assert_false(read_elf(&e, &m));
	e = elf_new();
	e.head.e_machine = EM_S390;
	assert_false(read_elf(&e, &m));
	e = elf_new();
	e.head.e_phentsize = 32;
	assert_false(read_elf(&e, &m));
	e = elf_new();
	e.head.e_phnum = 0;
	assert_false(read_elf(&e, &m));
	e = elf_new();
	e.segments[0].p_type = e.segments[1].p_type = PT_NULL;
	assert_false(read_elf(&e, &m));
	assert_false(read_path("/", &m));
	assert_false(read_path("/dev/null", &m));
	assert_int_equal(mkfifo(rig.path, 0600) < 0, 1); /* it is there */
	assert_int_equal(unlink(rig.path), 0);
	assert_int_equal(mkfifo(rig.path, 0600), 0);
	assert_false(read_path(rig.path, &m));
}

static void forged_headers_are_survived(void **state)
{
	static const uint64_t values[] = { 0, 1, 4095, 1 << 20, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX - 8, UINT64_MAX };
	const size_t n = sizeof(values) / sizeof(*values);
	struct module m;

	(void) state;
	for (size_t i = 0; i < n; i++) {
		struct elf e = elf_new();

		e.head.e_phoff = values[i];
		(void) read_elf(&e, &m);
		e = elf_new();
		e.head.e_phnum = 65535;
		assert_true(read_elf(&e, &m));
		for (size_t k = 0; k < n; k++) {
			e = elf_new();
			e.segments[0].p_offset = e.segments[2].p_offset = values[i];
			e.segments[0].p_filesz = e.segments[2].p_filesz = values[k];
			e.segments[0].p_vaddr = e.segments[0].p_align = values[n - 1 - k];
			assert_true(read_elf(&e, &m));
			e = elf_new();
			e.note.n_namesz = (uint32_t) values[i];
			e.note.n_descsz = (uint32_t) values[k];
			assert_true(read_elf(&e, &m));
			assert_int_equal(m.build_id[0], '\0');
		}
	}
}

/* A build id that is longer than any is cut; many segments are as many as there is room for. */
static void much_of_it_is_cut(void **state)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segments[40];
		Elf64_Nhdr note;
		char name[4];
		unsigned char id[200];
	} e = { .head = elf_new().head };
	struct module m;

	(void) state;
	e.head.e_phnum = 40;
	for (size_t i = 0; i < 40; i++)
		e.segments[i] = (Elf64_Phdr) { .p_type = i ? PT_LOAD : PT_NOTE, .p_offset = (char *) &e.note - (char *) &e, .p_filesz = 12 + 4 + 200 };
	e.note = (Elf64_Nhdr) { .n_namesz = 4, .n_descsz = 200, .n_type = NT_GNU_BUILD_ID };
	memcpy(e.name, "GNU", 4);
	write_file(&e, sizeof(e));
	assert_true(read_path(rig.path, &m));
	assert_int_equal(m.n_segments, MODULE_SEGMENTS);
	assert_int_equal(strlen(m.build_id), BUILD_ID_TEXT - 1);
}

/* ---- images ---------------------------------------------------------------------------------- */

static struct record map_of(const char *path, uint64_t start, uint64_t length, uint64_t offset)
{
	struct record map = { .kind = RECORD_MAP, .pid = getpid(), .tid = getpid() };
	struct stat st;

	map.map.start = start;
	map.map.length = length;
	map.map.offset = offset;
	map.map.path = path;
	if (stat(path, &st) == 0) {
		map.map.inode = st.st_ino;
		map.map.major = major(st.st_dev);
		map.map.minor = minor(st.st_dev);
	}
	return map;
}

static void add(struct image **i, const char *path, uint64_t start, uint64_t length, uint64_t offset)
{
	const struct record map = map_of(path, start, length, offset);

	image_add(i, &map);
}

/* An address in memory less the bias is the file's own. */
static void the_bias_is_that_of_the_segment(void **state)
{
	struct image *i = image_new(rig.modules);
	struct elf e = elf_new();
	struct image_map map;

	(void) state;
	write_file(&e, sizeof(e));
	add(&i, rig.path, 0x7f0000003000, 0x2000, 0x1000); /* the page of offset 0x1800, which has address 0x3800 */
	assert_true(image_find(i, 0x7f0000003800, &map));
	assert_int_equal(0x7f0000003800 - map.bias, 0x3800);
	assert_true(map.module->is_elf);
	assert_string_equal(map.module->path, rig.path);
	image_leave(i);
	/* At its own addresses: no bias. */
	assert_int_equal(unlink(rig.path), 0);
	(void) snprintf(rig.path, sizeof(rig.path), "%s/fixed", rig.folder);
	e.head.e_type = ET_EXEC;
	e.segments[0].p_vaddr = 0x400000;
	e.segments[1].p_vaddr = 0x403800;
	write_file(&e, sizeof(e));
	i = image_new(rig.modules);
	add(&i, rig.path, 0x403000, 0x2000, 0x1000);
	assert_true(image_find(i, 0x403800, &map));
	assert_int_equal(map.bias, 0);
	assert_int_equal(map.module->first_address, 0x400000);
	/* A part of a segment, further on. */
	add(&i, rig.path, 0x1000000, 0x1000, 0x2000);
	assert_true(image_find(i, 0x1000000, &map));
	assert_int_equal(0x1000000 - map.bias, 0x404000);
	image_leave(i);
}

static void the_newest_mapping_is_there(void **state)
{
	struct image *i = image_new(rig.modules);
	struct image_map map, all[4];
	uint64_t low, high;

	(void) state;
	image_range(i, &low, &high);
	assert_true(low >= high);
	add(&i, rig.self, 0x10000, 0x10000, 0);
	assert_true(image_find(i, 0x10000, &map));
	assert_true(image_find(i, 0x1ffff, &map));
	assert_false(image_find(i, 0x20000, &map));
	assert_false(image_find(i, 0xffff, &map));
	add(&i, "/etc/passwd", 0x18000, 0x10000, 0);
	assert_true(image_find(i, 0x18000, &map));
	assert_string_equal(map.module->path, "/etc/passwd");
	assert_false(map.module->is_elf);
	assert_int_equal(image_maps(i, 0, all, 4), 1);
	assert_int_equal(image_maps(i, 1, all, 4), 0);
	add(&i, rig.self, 0x100000, 0x1000, 0);
	assert_int_equal(image_maps(i, 0, all, 1), 1);
	assert_int_equal(image_maps(i, 1, all, 4), 1);
	image_range(i, &low, &high);
	assert_int_equal(low, 0x18000);
	assert_int_equal(high, 0x101000);
	image_leave(i);
}

static void forked_processes_have_one_image(void **state)
{
	struct image *parent = image_new(rig.modules), *child, *later;
	struct image_map map;
	uint64_t number;

	(void) state;
	add(&parent, rig.self, 0x10000, 0x1000, 0);
	number = image_number(parent);
	child = image_share(parent);
	assert_ptr_equal(child, parent);
	later = image_ref(child);
	add(&child, rig.self, 0x20000, 0x1000, 0);
	assert_ptr_not_equal(child, parent);
	assert_int_not_equal(image_number(child), number);
	assert_true(image_find(child, 0x10000, &map) && image_find(child, 0x20000, &map));
	assert_false(image_find(parent, 0x20000, &map));
	/* Now it is alone: no copy. */
	add(&parent, rig.self, 0x30000, 0x1000, 0);
	assert_int_equal(image_number(parent), number);
	assert_false(image_find(child, 0x30000, &map));
	image_leave(child);
	image_leave(parent);
	assert_true(image_find(later, 0x30000, &map)); /* a sample has it still */
	image_unref(later);
}

/* What the kernel reports of a file that is another one now, of none, and of nonsense. */
static void strange_mappings_are_survived(void **state)
{
	struct image *i = image_new(rig.modules);
	struct image_map map;
	struct record other;
	char long_path[5000];

	(void) state;
	other = map_of(rig.self, 0x10000, 0x1000, 0);
	other.map.inode++;
	image_add(&i, &other);
	assert_true(image_find(i, 0x10000, &map));
	assert_false(map.module->is_elf);
	add(&i, "//anon", 0x20000, 0x1000, 0);
	add(&i, "[vdso]", 0x30000, 0x1000, 0);
	add(&i, "", 0x40000, 0x1000, 0);
	add(&i, "/no/such/file (deleted)", 0x50000, 0x1000, UINT64_MAX);
	assert_int_equal(mkfifo(rig.path, 0600), 0);
	add(&i, rig.path, 0x60000, 0x1000, 0);
	add(&i, rig.folder, 0x70000, 0x1000, 0);
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	add(&i, long_path, 0x80000, 0x1000, 0);
	for (uint64_t at = 0x20000; at <= 0x80000; at += 0x10000) {
		assert_true(image_find(i, at, &map));
		assert_false(map.module->is_elf);
		assert_int_equal(module_open(map.module), -1);
	}
	add(&i, rig.self, UINT64_MAX - 0xfff, 0x2000, 0);
	add(&i, rig.self, 0x90000, 0, 0);
	assert_false(image_find(i, 0x90000, &map));
	assert_false(image_find(i, UINT64_MAX, &map));
	image_leave(i);
}

/* The process's own root is searched first. */
static void a_file_is_opened_if_it_is_the_same_still(void **state)
{
	struct image *i = image_new(rig.modules);
	struct elf e = elf_new();
	struct image_map map;
	int fd;

	(void) state;
	write_file(&e, sizeof(e));
	add(&i, rig.path, 0x10000, 0x1000, 0);
	assert_true(image_find(i, 0x10000, &map));
	fd = module_open(map.module);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	e.id[19] = 0;
	write_file(&e, sizeof(e));
	assert_int_equal(module_open(map.module), -1);
	e.id[19] = 0xab;
	e.segments[0].p_vaddr = 0x10000;
	write_file(&e, sizeof(e));
	assert_int_equal(module_open(map.module), -1);
	assert_int_equal(unlink(rig.path), 0);
	assert_int_equal(module_open(map.module), -1);
	image_leave(i);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_build_id_is_readelfs),
		TEST(a_file_of_ones_own),
		TEST(truncated_files_are_survived),
		TEST(what_is_no_program_of_this_machine),
		TEST(forged_headers_are_survived),
		TEST(much_of_it_is_cut),
		TEST(the_bias_is_that_of_the_segment),
		TEST(the_newest_mapping_is_there),
		TEST(forked_processes_have_one_image),
		TEST(strange_mappings_are_survived),
		TEST(a_file_is_opened_if_it_is_the_same_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
