/* SPDX-License-Identifier: MIT
 *
 * Another tool that is injected into NVTX: it counts its calls, makes handles and ids of its own, and
 * complains (fake_nvtx.wrong) if it is given any that it did not make. FAKE_NVTX is a list of letters: f: its
 * initialiser fails after it has stored its functions; h: it makes no handles; o: the second copy gets other
 * functions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct attributes {
	uint16_t version, size;
	uint32_t unused[7];
	int32_t type, unused2;
	const void *message;
};

struct fake_nvtx {
	int initialized, marks, pushes, pops, starts, ends, domains, strings, destroyed, wrong;
	int named; /* messages that it understood */
};

struct fake_nvtx fake_nvtx;

enum {
	HANDLES = 100,
	FIRST_LEVEL = 100,
};

static char handles[HANDLES];
static int used, level = FIRST_LEVEL;
static uint64_t open_ids[1000], next_id = 7000;

static int asked(char letter)
{
	const char *const how = getenv("FAKE_NVTX");

	return how && strchr(how, letter);
}

static void *handle(void)
{
	return used < HANDLES ? &handles[used++] : NULL;
}

static void check_handle(const void *h)
{
	if (h && ((const char *) h < handles || (const char *) h >= handles + used))
		fake_nvtx.wrong++;
}

static void check(const struct attributes *a)
{
	if (a->size != 48) {
		fake_nvtx.wrong++;
		return;
	}
	if (a->type == 3)
		check_handle(a->message);
	if (a->message)
		fake_nvtx.named++;
}

static void mark_a(const char *text)
{
	fake_nvtx.marks += text != NULL;
}

static int push_a(const char *text)
{
	fake_nvtx.pushes += text != NULL;
	return level++;
}

static int push_other(const char *text)
{
	return text ? 0 : -1;
}

static int pop(void)
{
	fake_nvtx.pops++;
	return --level;
}

static uint64_t start_a(const char *text)
{
	fake_nvtx.starts += text != NULL;
	open_ids[next_id % 1000] = next_id;
	return next_id++;
}

static void end(uint64_t id)
{
	fake_nvtx.ends++;
	if (open_ids[id % 1000] != id)
		fake_nvtx.wrong++;
	open_ids[id % 1000] = 0;
}

static int domain_push(const void *domain, const struct attributes *a)
{
	check_handle(domain);
	check(a);
	fake_nvtx.pushes++;
	return level++;
}

static int domain_pop(const void *domain)
{
	check_handle(domain);
	fake_nvtx.pops++;
	return --level;
}

static uint64_t domain_start(const void *domain, const struct attributes *a)
{
	check_handle(domain);
	check(a);
	return start_a("");
}

static void domain_end(const void *domain, uint64_t id)
{
	check_handle(domain);
	end(id);
}

static void *register_a(const void *domain, const char *text)
{
	check_handle(domain);
	fake_nvtx.strings += text != NULL;
	return handle();
}

static void *create_a(const char *name)
{
	fake_nvtx.domains += name != NULL;
	return handle();
}

static void destroy(const void *domain)
{
	check_handle(domain);
	fake_nvtx.destroyed++;
}

typedef void (*function)(void);

struct callbacks {
	size_t size;
	int (*module_table)(int module, function ***table, unsigned *n);
};

int InitializeInjectionNvtx2(const void *(*get)(uint32_t) );

int InitializeInjectionNvtx2(const void *(*get)(uint32_t) )
{
	const struct callbacks *const callbacks = get(1);
	function **core, **core2;
	unsigned n;

	if (callbacks->module_table(1, &core, &n) != 1 || callbacks->module_table(5, &core2, &n) != 1)
		return 0;
	*core[2] = (function) mark_a;
	*core[5] = (function) start_a;
	*core[7] = (function) end;
	*core[9] = asked('o') && fake_nvtx.initialized ? (function) push_other : (function) push_a;
	*core[11] = (function) pop;
	*core2[2] = (function) domain_start;
	*core2[3] = (function) domain_end;
	*core2[4] = (function) domain_push;
	*core2[5] = (function) domain_pop;
	if (!asked('h')) {
		*core2[10] = (function) register_a;
		*core2[12] = (function) create_a;
	}
	*core2[14] = (function) destroy;
	fake_nvtx.initialized++;
	return !asked('f');
}
