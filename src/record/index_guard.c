/* SPDX-License-Identifier: MIT */
#include "record/index_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	REGION = 32768,         /* SQLite maps the index in parts of this size (sqlite.org/walformat.html) */
	MOST_REGIONS = 64,      /* of all connections; any more are not guarded */
	INDEX_VERSION = 3007000 /* the first word of an index, in the byte order of the machine */
};

/* Read by a signal handler, so without a lock; written under one. */
static struct region {
	_Atomic(uintptr_t) at; /* 0: free */
	_Atomic(const sqlite3 *) owner;
	atomic_bool is_first, lost;
} regions[MOST_REGIONS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(uintptr_t) page_bytes;

static bool is_watched(const sqlite3 *db, uintptr_t at)
{
	for (size_t i = 0; i < MOST_REGIONS; i++) {
		if (regions[i].at == at && regions[i].owner == db)
			return true;
	}
	return false;
}

static void watch(const sqlite3 *db, uintptr_t at, bool is_first)
{
	if (is_watched(db, at))
		return;
	for (size_t i = 0; i < MOST_REGIONS; i++) {
		struct region *r = &regions[i];

		if (r->at != 0)
			continue;
		r->owner = db;
		r->is_first = is_first;
		r->lost = false;
		r->at = at;
		return;
	}
}

void index_guard_watch(sqlite3 *db)
{
	sqlite3_file *file = NULL;
	volatile void *at = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
		!file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap)
		return;
	(void) pthread_mutex_lock(&lock);
	page_bytes = (uintptr_t) sysconf(_SC_PAGESIZE);
	for (int i = 0; i < MOST_REGIONS; i++) {
		if (file->pMethods->xShmMap(file, i, REGION, 0, &at) != SQLITE_OK || !at)
			break;
		watch(db, (uintptr_t) at, i == 0);
	}
	(void) pthread_mutex_unlock(&lock);
}

void index_guard_forget(const sqlite3 *db)
{
	(void) pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MOST_REGIONS; i++) {
		if (regions[i].at != 0 && regions[i].owner == db)
			regions[i].at = 0;
	}
	(void) pthread_mutex_unlock(&lock);
}

bool index_guard_lost(const sqlite3 *db)
{
	for (size_t i = 0; i < MOST_REGIONS; i++) {
		const struct region *r = &regions[i];
		const uintptr_t at = r->at;

		if (at == 0 || r->owner != db)
			continue;
		if (r->is_first && *(const volatile uint32_t *) at != INDEX_VERSION)
			return true;
		if (r->lost)
			return true;
	}
	return false;
}

bool index_guard_fault(const void *address)
{
	const uintptr_t fault = (uintptr_t) address, page = fault & ~(page_bytes - 1);
	bool is_ours = false;

	for (size_t i = 0; i < MOST_REGIONS; i++) {
		const uintptr_t at = regions[i].at;

		if (at == 0 || fault < at || fault >= at + REGION)
			continue;
		regions[i].lost = true;
		is_ours = true;
	}
	if (!is_ours)
		return false;
	const int before = errno;
	const void *made = mmap((void *) page, page_bytes, PROT_READ | PROT_WRITE,
		MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = before;
	return made != MAP_FAILED;
}
