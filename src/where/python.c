/* SPDX-License-Identifier: MIT */
#include "where/python.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/textwidth.h"

enum {
	FIRST_MINOR = 8,
	NAME_MOST = 400,          /* characters of a name or a path */
	LINES_MOST = 1 << 16,     /* bytes of a table of lines */
	INTERPRETERS_MOST = 16,
	THREADS_MOST = 1000,
	FRAMES_MOST = 3000,       /* outer ones, which are skipped, too */
	CODES_MOST = 5000,
	HEADERS_MOST = 32,        /* program headers */
	DYNAMIC_MOST = 128,
	SYMBOLS_MOST = 1000,      /* of a chain of the hash table */
	THREAD_TID = 720,         /* in glibc's struct pthread, x86-64 */
	OWNED_BY_C = 3,           /* frame_owner: this and larger ones are no functions of Python */
	NONE = -1,
};

/* Offsets of members: of 64-bit builds without Py_TRACE_REFS, and with the GIL. */
struct layout {
	int interpreters;         /* in _PyRuntime: the first interpreter */
	int interpreter_next, threads;
	int thread_next, thread_frame, cframe_frame; /* NONE: thread_frame is the frame, not a _PyCFrame */
	int thread_id, thread_native;
	int frame_previous, frame_code, frame_at, frame_owner;
	int code_first, code_file, code_name, code_lines, code_start;
	int text_ascii, text_compact; /* behind the two structures of a text */
};

static const struct layout layouts[] = {
	{ 32, 0, 8, 8, 24, NONE, 176, NONE, 24, 32, 104, NONE, 40, 104, 112, 120, NONE, 48, 72 },  /* 3.8 */
	{ 32, 0, 8, 8, 24, NONE, 176, NONE, 24, 32, 104, NONE, 40, 104, 112, 120, NONE, 48, 72 },  /* 3.9 */
	{ 32, 0, 8, 8, 24, NONE, 176, NONE, 24, 32, 96, NONE, 40, 104, 112, 120, NONE, 48, 72 },   /* 3.10 */
	{ 40, 0, 16, 8, 56, 8, 152, 160, 48, 32, 56, 69, 72, 112, 128, 136, 184, 48, 72 },         /* 3.11 */
	{ 40, 0, 72, 8, 56, 0, 136, 144, 8, 0, 56, 70, 68, 112, 128, 136, 192, 40, 56 },           /* 3.12 */
	{ 632, 7264, 7344, 8, 72, NONE, 152, 160, 8, 0, 56, 70, 68, 112, 128, 136, 200, 40, 56 },  /* 3.13 */
};
enum {
	LAYOUTS = sizeof(layouts) / sizeof(*layouts),
	/* the same in all of them */
	OBJECT_TYPE = 8,
	BYTES_SIZE = 16,
	BYTES_DATA = 32,
	TEXT_LENGTH = 16,
	TEXT_STATE = 32,
	FRAME_BYTES = 128,        /* that have all members above */
	CODE_BYTES = 208,
	TEXT_BYTES = 40,
};

/* A code object: of a function, a class or a module. */
struct code {
	uint64_t name_at, file_at, lines_at;
	int32_t first;
	char *name, *file;
};

/* Its table of lines. */
struct lines {
	unsigned char *bytes;
	size_t n;
	int32_t first;
};

struct python {
	pid_t pid;
	unsigned minor;           /* 3.minor */
	const struct layout *layout;
	uint64_t runtime, code_type;
	struct code *codes;
	size_t n_codes, cap_codes;
	struct map places;        /* of addresses, in codes */
};

/* A frame as it was read. */
struct place {
	uint64_t frame, code, at;
};

struct walk {
	struct place places[WHERE_PYTHON_DEPTH];
	size_t n;
	bool is_cut;
};

/* ---- memory of the process ------------------------------------------------------------------- */

static int read_memory(pid_t pid, uint64_t address, void *ret, size_t size)
{
	const struct iovec here = { ret, size }, there = { (void *) (uintptr_t) address, size }; /* NOLINT */
	const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (n == (ssize_t) size)
		return 0;
	return n < 0 ? -errno : -EFAULT;
}

static uint64_t word(const unsigned char *bytes, int offset)
{
	uint64_t value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

static int read_word(const struct python *p, uint64_t address, uint64_t *ret)
{
	return read_memory(p->pid, address, ret, sizeof(*ret));
}

/* ---- the interpreter ------------------------------------------------------------------------- */

/* The dynamic symbols of a program or library, by its copy in memory. */
struct symbols {
	pid_t pid;
	uint64_t base, names, table, hash;
};

/* Most loaders write addresses over the offsets that the file has. */
static uint64_t absolute(const struct symbols *s, uint64_t value)
{
	return value < s->base ? s->base + value : value;
}

static bool find_tables(struct symbols *s, uint64_t dynamic, size_t n)
{
	Elf64_Dyn entries[DYNAMIC_MOST];

	n = n < DYNAMIC_MOST ? n : DYNAMIC_MOST;
	if (read_memory(s->pid, dynamic, entries, n * sizeof(*entries)) < 0)
		return false;
	for (size_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++) {
		const uint64_t at = absolute(s, entries[i].d_un.d_ptr);

		if (entries[i].d_tag == DT_STRTAB)
			s->names = at;
		else if (entries[i].d_tag == DT_SYMTAB)
			s->table = at;
		else if (entries[i].d_tag == DT_GNU_HASH)
			s->hash = at;
	}
	return s->names && s->table && s->hash;
}

/* What is loaded at s->base. ret_bias: what is added to the addresses of its symbols. */
static bool open_symbols(struct symbols *s, uint64_t *ret_bias)
{
	Elf64_Ehdr header;
	Elf64_Phdr parts[HEADERS_MOST];
	const Elf64_Phdr *dynamic = NULL;
	bool has_first = false;

	if (read_memory(s->pid, s->base, &header, sizeof(header)) < 0 ||
		memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
		header.e_phnum > HEADERS_MOST || header.e_phentsize != sizeof(*parts) ||
		read_memory(s->pid, s->base + header.e_phoff, parts, header.e_phnum * sizeof(*parts)) < 0)
		return false;
	for (size_t i = 0; i < header.e_phnum; i++) {
		if (parts[i].p_type == PT_LOAD && !has_first) {
			*ret_bias = s->base - (parts[i].p_vaddr - parts[i].p_offset);
			has_first = true;
		}
		if (parts[i].p_type == PT_DYNAMIC)
			dynamic = &parts[i];
	}
	return has_first && dynamic &&
	       find_tables(s, *ret_bias + dynamic->p_vaddr, dynamic->p_memsz / sizeof(Elf64_Dyn));
}

/* The hash of DT_GNU_HASH. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char) *name;
	return hash;
}

static bool is_named(const struct symbols *s, const Elf64_Sym *symbol, const char *name)
{
	char text[32];
	const size_t n = strlen(name) + 1;

	return n <= sizeof(text) && read_memory(s->pid, s->names + symbol->st_name, text, n) == 0 &&
	       memcmp(text, name, n) == 0;
}

/* The symbol's address before relocation; 0: there is none. */
static uint64_t find_symbol(const struct symbols *s, const char *name)
{
	const uint32_t hash = hash_of(name);
	uint32_t head[4], place, link; /* buckets, the first symbol that is hashed, words of the filter */

	if (read_memory(s->pid, s->hash, head, sizeof(head)) < 0 || head[0] == 0)
		return 0;
	const uint64_t buckets = s->hash + sizeof(head) + (uint64_t) head[2] * 8,
		       chains = buckets + (uint64_t) head[0] * 4;

	if (read_memory(s->pid, buckets + (uint64_t) (hash % head[0]) * 4, &place, sizeof(place)) < 0 ||
		place < head[1])
		return 0;
	for (unsigned i = 0; i < SYMBOLS_MOST; i++, place++) {
		Elf64_Sym symbol;

		if (read_memory(s->pid, chains + (uint64_t) (place - head[1]) * 4, &link, sizeof(link)) < 0)
			return 0;
		if ((link | 1) == (hash | 1) &&
			read_memory(s->pid, s->table + (uint64_t) place * sizeof(symbol), &symbol,
				sizeof(symbol)) == 0 &&
			is_named(s, &symbol, name))
			return symbol.st_value;
		if (link & 1)
			return 0;
	}
	return 0;
}

unsigned python_minor(const char *path)
{
	const char *name = strrchr(path, '/');
	uint64_t minor;

	name = name ? name + 1 : path;
	name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
	if (strncmp(name, "python3.", 8) != 0)
		return 0;
	name += 8;
	if (parse_u64(&name, &minor) < 0 || minor < FIRST_MINOR || minor >= FIRST_MINOR + LAYOUTS ||
		(*name && *name != '.' && *name != ' ')) /* python3.13t, python3.12d */
		return 0;
	return (unsigned) minor;
}

static bool find_runtime(struct python *p, uint64_t base, unsigned minor)
{
	struct symbols s = { .pid = p->pid, .base = base };
	uint64_t bias, runtime, code_type;

	if (!open_symbols(&s, &bias))
		return false;
	runtime = find_symbol(&s, "_PyRuntime");
	code_type = find_symbol(&s, "PyCode_Type");
	if (!runtime || !code_type)
		return false;
	p->minor = minor;
	p->layout = &layouts[minor - FIRST_MINOR];
	p->runtime = bias + runtime;
	p->code_type = bias + code_type;
	return true;
}

int python_open(pid_t pid, unsigned minor, uint64_t base, struct python **ret)
{
	struct python *p = calloc(1, sizeof(*p));
	unsigned char byte;
	int r;

	if (!p)
		return -ENOMEM;
	p->pid = pid;
	r = read_memory(pid, base, &byte, 1);
	if (r == 0)
		r = find_runtime(p, base, minor) ? 0 : -ENOENT;
	else if (r == -ENOSYS)
		r = -EPERM;
	if (r < 0)
		free(p);
	else
		*ret = p;
	return r;
}

static void code_done(struct code *c)
{
	free(c->name);
	free(c->file);
}

static void forget_codes(struct python *p)
{
	for (size_t i = 0; i < p->n_codes; i++)
		code_done(&p->codes[i]);
	p->n_codes = 0;
	map_done(&p->places);
}

void python_free(struct python *p)
{
	if (!p)
		return;
	forget_codes(p);
	free(p->codes);
	free(p);
}

/* ---- its threads and frames ------------------------------------------------------------------ */

/* Is it the thread's state? */
static bool is_state_of(const struct python *p, const unsigned char *state, pid_t thread)
{
	if (p->layout->thread_native != NONE)
		return word(state, p->layout->thread_native) == (uint64_t) thread;
#if defined(__x86_64__)
	int32_t tid;

	return read_memory(p->pid, word(state, p->layout->thread_id) + THREAD_TID, &tid, sizeof(tid)) == 0 &&
	       tid == thread;
#else
	return false;
#endif
}

/* The state of a thread, in any interpreter. The main thread's is the last of the list. 0: none. */
static uint64_t find_thread(const struct python *p, pid_t thread)
{
	const struct layout *const l = p->layout;
	uint64_t interpreter, main = 0;
	unsigned n = 0;

	if (read_word(p, p->runtime + (uint64_t) l->interpreters, &interpreter) < 0)
		return 0;
	for (unsigned i = 0; interpreter && i < INTERPRETERS_MOST; i++) {
		uint64_t at;

		if (read_word(p, interpreter + (uint64_t) l->threads, &at) < 0)
			return 0;
		while (at) {
			unsigned char state[200];

			if (n++ == THREADS_MOST || read_memory(p->pid, at, state, sizeof(state)) < 0)
				return 0;
			if (thread && is_state_of(p, state, thread))
				return at;
			main = at;
			at = word(state, l->thread_next);
		}
		if (read_word(p, interpreter + (uint64_t) l->interpreter_next, &interpreter) < 0)
			return 0;
	}
	return thread == 0 || thread == p->pid ? main : 0;
}

static uint64_t first_frame(const struct python *p, uint64_t thread)
{
	const struct layout *const l = p->layout;
	uint64_t at;

	if (read_word(p, thread + (uint64_t) l->thread_frame, &at) < 0)
		return 0;
	if (l->cframe_frame != NONE && (at == 0 || read_word(p, at + (uint64_t) l->cframe_frame, &at) < 0))
		return 0;
	return at;
}

static bool is_function(const struct python *p, const unsigned char *frame)
{
	const struct layout *const l = p->layout;
	uint64_t type;

	if (l->frame_owner != NONE && frame[l->frame_owner] >= OWNED_BY_C)
		return false;
	return read_word(p, word(frame, l->frame_code) + OBJECT_TYPE, &type) == 0 && type == p->code_type;
}

static int walk(const struct python *p, uint64_t thread, struct walk *ret)
{
	const struct layout *const l = p->layout;
	uint64_t at = first_frame(p, thread);

	ret->n = 0;
	ret->is_cut = false;
	for (unsigned i = 0; at; i++) {
		unsigned char frame[FRAME_BYTES];

		if (i == FRAMES_MOST || read_memory(p->pid, at, frame, sizeof(frame)) < 0)
			return -ESRCH;
		if (ret->n == WHERE_PYTHON_DEPTH) {
			ret->is_cut = true;
			return 0;
		}
		if (is_function(p, frame)) {
			uint64_t where = word(frame, l->frame_at);

			if (l->frame_owner == NONE)
				where &= UINT32_MAX; /* f_lasti, an int */
			ret->places[ret->n++] = (struct place) { at, word(frame, l->frame_code), where };
		}
		at = word(frame, l->frame_previous);
	}
	return ret->n > 0 ? 0 : -ESRCH;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A text, as UTF-8; of a long one the beginning. NULL: it is none. */
static char *read_text(const struct python *p, uint64_t address)
{
	unsigned char head[TEXT_BYTES], data[4 * NAME_MOST];
	char *text, *at;

	if (read_memory(p->pid, address, head, sizeof(head)) < 0)
		return NULL;
	/* interned: 2 bits, kind (bytes of a character): 3, compact: 1, ascii: 1 */
	const unsigned kind = head[TEXT_STATE] >> 2 & 7;
	const bool is_compact = head[TEXT_STATE] >> 5 & 1, is_ascii = head[TEXT_STATE] >> 6 & 1;
	const uint64_t length = word(head, TEXT_LENGTH);
	const size_t n = length < NAME_MOST ? (size_t) length : NAME_MOST;

	if (!is_compact || (kind != 1 && kind != 2 && kind != 4) || length > INT32_MAX ||
		read_memory(p->pid,
			address + (uint64_t) (is_ascii ? p->layout->text_ascii : p->layout->text_compact),
			data, n * kind) < 0)
		return NULL;
	text = at = malloc(4 * n + 1);
	for (size_t i = 0; text && i < n; i++) {
		uint32_t c = 0;

		memcpy(&c, data + i * kind, kind); /* little-endian, as both architectures are */
		at += utf8_put(at, c);
	}
	if (text)
		*at = '\0';
	return text;
}

/* A code object; NULL: it cannot be read. An object that took an earlier one's address is another. */
static struct code *code_of(struct python *p, uint64_t address)
{
	const struct layout *const l = p->layout;
	unsigned char object[CODE_BYTES];
	struct code new = { .name = NULL }, *old = NULL;
	uint32_t place;

	if (read_memory(p->pid, address, object, sizeof(object)) < 0)
		return NULL;
	new.name_at = word(object, l->code_name);
	new.file_at = word(object, l->code_file);
	new.lines_at = word(object, l->code_lines);
	memcpy(&new.first, object + l->code_first, sizeof(new.first));
	if (map_get(&p->places, address, &place)) {
		old = &p->codes[place];
		if (old->name_at == new.name_at && old->file_at == new.file_at &&
			old->lines_at == new.lines_at && old->first == new.first)
			return old;
	}
	new.name = read_text(p, new.name_at);
	new.file = read_text(p, new.file_at);
	if (!new.name || !new.file) {
		code_done(&new);
		return NULL;
	}
	if (old) {
		code_done(old);
		*old = new;
		return old;
	}
	if (p->n_codes >= CODES_MOST)
		forget_codes(p);
	if (vec_reserve(&p->codes, &p->cap_codes, p->n_codes, sizeof(new), CODES_MOST) < 0 ||
		map_put(&p->places, address, (uint32_t) p->n_codes) < 0) {
		code_done(&new);
		return NULL;
	}
	p->codes[p->n_codes] = new;
	return &p->codes[p->n_codes++];
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool read_lines(const struct python *p, const struct code *c, struct lines *ret)
{
	uint64_t size;

	if (read_word(p, c->lines_at + BYTES_SIZE, &size) < 0 || size == 0 || size > LINES_MOST)
		return false;
	ret->first = c->first;
	ret->n = (size_t) size;
	ret->bytes = malloc(ret->n);
	if (!ret->bytes || read_memory(p->pid, c->lines_at + BYTES_DATA, ret->bytes, ret->n) < 0) {
		free(ret->bytes);
		return false;
	}
	return true;
}

/* Pairs: bytes of code, and what is added to the line behind them. */
static int64_t line_by_lnotab(const struct lines *l, uint64_t place)
{
	int64_t line = l->first;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < l->n; i += 2) {
		at += l->bytes[i];
		if (at > place)
			break;
		line += (signed char) l->bytes[i + 1];
	}
	return line;
}

/* Pairs: bytes of code, and what is added to the line before them; -128: they have none. */
static int64_t line_by_linetable(const struct lines *l, uint64_t place)
{
	int64_t line = l->first;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < l->n; i += 2) {
		const int delta = (signed char) l->bytes[i + 1];

		line += delta == -128 ? 0 : delta;
		at += l->bytes[i];
		if (at > place)
			return delta == -128 ? 0 : line;
	}
	return 0;
}

/* Six bits a byte, the lowest first; the seventh: there are more. */
static uint64_t next_varint(const struct lines *l, size_t *at)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < l->n && shift < 60; shift += 6) {
		const unsigned char byte = l->bytes[(*at)++];

		value |= (uint64_t) (byte & 0x3f) << shift;
		if (!(byte & 0x40))
			break;
	}
	return value;
}

/* Entries begin with a byte that has the highest bit: a kind, and units of code less one. */
static int64_t line_by_locations(const struct lines *l, uint64_t place)
{
	enum {
		ONE_LINE = 10,
		NO_COLUMNS = 13,
		LONG = 14,
		NO_LOCATION = 15
	};
	int64_t line = l->first;
	uint64_t at = 0;

	for (size_t i = 0; i < l->n;) {
		const unsigned kind = l->bytes[i] >> 3 & 15;

		at += 2 * ((uint64_t) (l->bytes[i++] & 7) + 1);
		if (kind >= ONE_LINE && kind < NO_COLUMNS) {
			line += kind - ONE_LINE;
		} else if (kind == NO_COLUMNS || kind == LONG) {
			const uint64_t delta = next_varint(l, &i);

			line += delta & 1 ? -(int64_t) (delta >> 1) : (int64_t) (delta >> 1);
			if (line < 0 || line > INT32_MAX)
				return 0;
		}
		if (at > place)
			return kind == NO_LOCATION ? 0 : line;
		while (i < l->n && !(l->bytes[i] & 0x80))
			i++; /* columns */
	}
	return 0;
}

static uint32_t line_of(const struct python *p, const struct code *c, const struct place *place)
{
	struct lines l;
	int64_t line;

	if (!read_lines(p, c, &l))
		return 0;
	if (p->minor >= 11)
		line = line_by_locations(&l, place->at - (place->code + (uint64_t) p->layout->code_start));
	else if (p->minor == 10)
		line = line_by_linetable(&l, 2 * place->at);
	else
		line = line_by_lnotab(&l, place->at);
	free(l.bytes);
	return line > 0 && line < INT32_MAX ? (uint32_t) line : 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* How many outer frames they have in common. The outermost is the last. */
static size_t common_frames(const struct walk *a, const struct walk *b)
{
	size_t n = 0;

	while (n < a->n && n < b->n && a->places[a->n - 1 - n].frame == b->places[b->n - 1 - n].frame &&
		a->places[a->n - 1 - n].code == b->places[b->n - 1 - n].code)
		n++;
	return n;
}

/* False: out of memory, which leaves the frame empty. */
static bool put_frame(struct python_frame *to, const char *function, const char *file, uint32_t line)
{
	*to = (struct python_frame) { strdup(function), strdup(file), line };
	if (to->function && to->file)
		return true;
	free(to->function);
	free(to->file);
	return false;
}

int python_stack(struct python *p, pid_t thread, struct python_stack *ret)
{
	const uint64_t state = find_thread(p, thread);
	struct walk first, second;
	size_t n;

	ret->n = 0;
	if (!state || walk(p, state, &first) < 0 || walk(p, state, &second) < 0)
		return -ESRCH;
	n = first.is_cut || second.is_cut ? second.n : common_frames(&first, &second);
	for (size_t i = second.n - n; i < second.n; i++) {
		const bool is_cut = second.is_cut && i + 1 == second.n;
		const struct code *const c = code_of(p, second.places[i].code);
		const char *const file = c && *c->file ? c->file : "?";

		if (!c || !put_frame(&ret->frames[ret->n], is_cut ? "…" : c->name, is_cut ? "" : file,
				  is_cut ? 0 : line_of(p, c, &second.places[i]))) {
			python_stack_done(ret);
			return -ESRCH;
		}
		ret->n++;
	}
	return ret->n > 0 ? 0 : -ESRCH;
}

void python_stack_done(struct python_stack *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->frames[i].function);
		free(s->frames[i].file);
	}
	s->n = 0;
}
