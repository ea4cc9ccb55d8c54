/* SPDX-License-Identifier: MIT */
#include "where/names.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBDW
#include <elfutils/libdwfl.h>
#endif

enum {
	MAPS = 64,
	MAP_BYTES = 64 << 20, /* of a perf map that are read */
};

struct map_entry {
	uint64_t start, bytes;
	const char *name;
};

struct perf_map {
	pid_t pid;
	char *text;           /* the names end in it */
	struct map_entry *entries;
	size_t n;
};

/* A function of the module that is open. */
struct symbol {
	uint64_t start, bytes;    /* 0: unknown */
	const char *name;         /* of the open file */
	bool is_label;            /* without a size of its own: until the next one */
	int rank, index;          /* of those of one place: a global one; the first in the table */
};

struct names {
	const struct module *module; /* that is open; NULL: none */
	struct symbol *symbols;      /* by address */
	size_t n_symbols;
#ifdef HAVE_LIBDW
	Dwfl *dwfl;
	Dwfl_Module *opened;  /* NULL: it cannot be opened */
#endif
	struct perf_map maps[MAPS];
	size_t n_maps;
};

/* ---- modules --------------------------------------------------------------------------------- */

#ifdef HAVE_LIBDW

static int no_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, char **file,
	Elf **elf)
{
	(void) module, (void) user, (void) name, (void) base, (void) file, (void) elf;
	return -1;
}

static const Dwfl_Callbacks files = {
	.find_elf = no_file,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static void close_module(struct names *n)
{
	if (n->dwfl)
		dwfl_end(n->dwfl);
	free(n->symbols);
	n->symbols = NULL;
	n->n_symbols = 0;
	n->dwfl = NULL;
	n->opened = NULL;
	n->module = NULL;
}

/* The preferred of those of one place is the last. */
static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->is_label != y->is_label)
		return x->is_label ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->index > y->index ? -1 : 1;
}

/* Labels of assembly have no size: as far as their section reaches. 0: no code, as "_end" is none. */
static uint64_t label_bytes(Elf *elf, GElf_Word section, uint64_t address)
{
	GElf_Shdr head;

	if (!elf || !gelf_getshdr(elf_getscn(elf, section), &head) || !(head.sh_flags & SHF_EXECINSTR))
		return 0;
	return address - head.sh_addr < head.sh_size ? head.sh_addr + head.sh_size - address : 0;
}

/* libdwfl goes through all symbols for each address, of which a large library has a million: so they are sorted once. */
static void read_symbols(struct names *n)
{
	const int all = dwfl_module_getsymtab(n->opened);
	GElf_Addr bias;
	Elf *const elf = dwfl_module_getelf(n->opened, &bias);

	n->symbols = all > 0 ? calloc((size_t) all, sizeof(*n->symbols)) : NULL;
	for (int i = 0; n->symbols && i < all; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		GElf_Word section;
		const char *const name =
			dwfl_module_getsym_info(n->opened, i, &symbol, &address, &section, NULL, NULL);
		const int type = GELF_ST_TYPE(symbol.st_info);

		if (!name || !*name || section == SHN_UNDEF ||
			(type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC))
			continue;
		n->symbols[n->n_symbols++] = (struct symbol) {
			.start = address,
			.bytes = symbol.st_size ? symbol.st_size : label_bytes(elf, section, address),
			.is_label = symbol.st_size == 0,
			.name = name,
			.rank = GELF_ST_BIND(symbol.st_info) == STB_GLOBAL,
			.index = i,
		};
	}
	if (n->n_symbols > 1)
		qsort(n->symbols, n->n_symbols, sizeof(*n->symbols), by_address);
}

/* The last one that begins before it and does not end before it. Some of assembly have no size. */
static const char *find_symbol(const struct names *n, uint64_t address)
{
	enum {
		NESTED = 16 /* others that begin between, such as labels */
	};
	size_t low = 0, high = n->n_symbols;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (n->symbols[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < NESTED; i--) {
		const struct symbol *const s = &n->symbols[i - 1];

		if (address - s->start < s->bytes && (!s->is_label || i == low))
			return s->name;
	}
	return NULL;
}

static void open_module(struct names *n, const struct module *module)
{
	int fd;

	close_module(n);
	n->module = module;
	fd = module_open(module);
	if (fd < 0)
		return;
	n->dwfl = dwfl_begin(&files);
	if (n->dwfl) {
		dwfl_report_begin(n->dwfl);
		n->opened = dwfl_report_elf(n->dwfl, module->path, module->path, fd, module->first_address,
			false);
		(void) dwfl_report_end(n->dwfl, NULL, NULL);
	}
	if (n->opened)
		read_symbols(n);
	else
		(void) close(fd);
}

void names_of(struct names *n, const struct module *module, uint64_t offset, struct place_name *ret)
{
	const char *function, *file;
	Dwfl_Line *line;
	int number = 0;

	memset(ret, 0, sizeof(*ret));
	if (n->module != module)
		open_module(n, module);
	if (!n->opened)
		return;
	function = find_symbol(n, offset);
	(void) snprintf(ret->function, sizeof(ret->function), "%s", function ? function : "");
	line = dwfl_module_getsrc(n->opened, offset);
	file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
	if (file && number > 0) {
		(void) snprintf(ret->file, sizeof(ret->file), "%s", file);
		ret->line = (uint32_t) number;
	}
}

#else

static void close_module(struct names *n)
{
	(void) n;
}

void names_of(struct names *n, const struct module *module, uint64_t offset, struct place_name *ret)
{
	(void) n, (void) module, (void) offset;
	memset(ret, 0, sizeof(*ret));
}

#endif

/* ---- perf maps ------------------------------------------------------------------------------- */

enum {
	MAP_PATH = 64,
};

static void map_path(pid_t pid, char ret[static MAP_PATH])
{
	(void) snprintf(ret, MAP_PATH, "/tmp/perf-%d.map", (int) pid);
}

/* -1: there is none that is a regular file. */
static int open_map(pid_t pid, struct stat *ret)
{
	char path[MAP_PATH];
	int fd;

	map_path(pid, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	if (fd >= 0 && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode))
		return fd;
	if (fd >= 0)
		(void) close(fd);
	return -1;
}

/* All of it, if it is this user's or root's. */
static char *read_map(pid_t pid, size_t *ret_bytes)
{
	struct stat st;
	const int fd = open_map(pid, &st);
	char *text = NULL;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if ((st.st_uid == geteuid() || st.st_uid == 0) && st.st_size > 0)
		text = malloc((st.st_size < MAP_BYTES ? (size_t) st.st_size : MAP_BYTES) + 1);
	if (text)
		n = read(fd, text, st.st_size < MAP_BYTES ? (size_t) st.st_size : MAP_BYTES);
	(void) close(fd);
	if (n <= 0) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	*ret_bytes = (size_t) n;
	return text;
}

/* "7f52c0de1000 b py::load_table:/home/me/job.py": all entries of Python's are such. */
static bool is_of_python(int fd)
{
	char text[64];
	const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	const char *name;

	text[n > 0 ? n : 0] = '\0';
	name = strchr(text, ' ');
	name = name ? strchr(name + 1, ' ') : NULL;
	return name && strncmp(name, " py::", 5) == 0;
}

void names_remove_map(pid_t pid, int64_t since_s)
{
	char path[MAP_PATH];
	struct stat st;
	const int fd = open_map(pid, &st);

	if (fd < 0)
		return;
	map_path(pid, path);
	if (st.st_uid == geteuid() && st.st_mtime >= since_s && is_of_python(fd))
		(void) unlink(path);
	(void) close(fd);
}

static bool parse_hex(const char **p, uint64_t *ret)
{
	char *end;

	*ret = strtoull(*p, &end, 16);
	if (end == *p || !isxdigit((unsigned char) **p)) /* strtoull takes signs and spaces, too */
		return false;
	*p = end;
	return true;
}

/* "7f52c0de1000 b NAME"; lines that are no entries are left out. */
static void parse_map(struct perf_map *map)
{
	size_t cap = 0;

	for (char *line = map->text, *next; line && *line; line = next) {
		const char *p = line;
		struct map_entry entry;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!parse_hex(&p, &entry.start) || *p++ != ' ' || !parse_hex(&p, &entry.bytes) ||
			*p++ != ' ' || !*p)
			continue;
		entry.name = p;
		if (map->n == cap) {
			struct map_entry *const entries = realloc(map->entries, (cap ? 2 * cap
										     : 1024) *
											sizeof(entry));

			if (!entries)
				return;
			map->entries = entries;
			cap = cap ? 2 * cap : 1024;
		}
		map->entries[map->n++] = entry;
	}
}

/* Of one address in the order of the lines: the last is right. */
static int by_start(const void *a, const void *b)
{
	const struct map_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static struct perf_map *find_map(struct names *n, pid_t pid)
{
	struct perf_map *map;
	size_t bytes;

	for (size_t i = 0; i < n->n_maps; i++) {
		if (n->maps[i].pid == pid)
			return &n->maps[i];
	}
	if (n->n_maps == MAPS)
		return NULL;
	map = &n->maps[n->n_maps++];
	map->pid = pid;
	map->text = read_map(pid, &bytes);
	if (map->text)
		parse_map(map);
	if (map->n > 1)
		qsort(map->entries, map->n, sizeof(*map->entries), by_start);
	return map;
}

/* "py::load_table:/home/me/job.py" of Python; others have a name alone. */
static void split_name(const char *name, struct place_name *ret)
{
	const char *const rest = strncmp(name, "py::", 4) == 0 ? name + 4 : NULL;
	const char *const colon = rest ? strstr(rest, ":/") ? strstr(rest, ":/") : strrchr(rest, ':') : NULL;

	if (!colon) {
		(void) snprintf(ret->function, sizeof(ret->function), "%s", rest ? rest : name);
		return;
	}
	(void) snprintf(ret->function, sizeof(ret->function), "%.*s", (int) (colon - rest), rest);
	(void) snprintf(ret->file, sizeof(ret->file), "%s", colon + 1);
}

bool names_of_map(struct names *n, pid_t pid, uint64_t address, struct place_name *ret)
{
	const struct perf_map *map = find_map(n, pid);
	size_t low = 0, high = map ? map->n : 0;

	memset(ret, 0, sizeof(*ret));
	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (map->entries[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - map->entries[low - 1].start >= map->entries[low - 1].bytes)
		return false;
	split_name(map->entries[low - 1].name, ret);
	return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct names *names_new(void)
{
	return calloc(1, sizeof(struct names));
}

void names_free(struct names *n)
{
	if (!n)
		return;
	close_module(n);
	for (size_t i = 0; i < n->n_maps; i++) {
		free(n->maps[i].text);
		free(n->maps[i].entries);
	}
	free(n);
}
