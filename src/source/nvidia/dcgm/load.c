/* SPDX-License-Identifier: MIT */
#include "source/nvidia/dcgm/load.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/nvidia/library.h"

enum {
	PORT = 5555,
	CONNECT_MS = 1000,
};

static const char *const library_names[] = { "libdcgm.so.4", "libdcgm.so.3", "libdcgm.so" };

/* The default addresses of nv-hostengine; it listens on the socket only if started with that
 * option. */
static const char *const addresses[] = { "/tmp/nv-hostengine", "127.0.0.1" };

static const struct {
	size_t at; /* of the member in struct dcgm */
	const char *name;
} symbols[] = {
#define X(member, parameters, name) { offsetof(struct dcgm, member), name },
	DCGM_CALLS(X)
#undef X
};

/* ---- detection ------------------------------------------------------------------------------- */

static bool listens_unix(const char *path)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	(void) snprintf(to.sun_path, sizeof(to.sun_path), "%.100s", path);
	return fd >= 0 && connect(fd, (const struct sockaddr *) &to, sizeof(to)) == 0;
}

/* Connects to the port on the loopback interface, which succeeds or fails at once. */
static bool listens_here(void)
{
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = { htonl(INADDR_LOOPBACK) }
	};

	return fd >= 0 && connect(fd, (const struct sockaddr *) &to, sizeof(to)) == 0;
}

/* The address of an engine; NULL: none is running. */
static const char *engine_address(void)
{
	const char *given = getenv("HIWATER_DCGM_ENGINE");

	if (given && *given)
		return given;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		if (addresses[i][0] == '/' ? listens_unix(addresses[i]) : listens_here())
			return addresses[i];
	}
	return NULL;
}

/* ---- the library ----------------------------------------------------------------------------- */

static void find_symbols(struct dcgm *dcgm)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlsym(dcgm->library, symbols[i].name);

		/* POSIX allows a function address in an object pointer; ISO C does not allow the
		 * cast. */
		memcpy((char *) dcgm + symbols[i].at, &found, sizeof(found));
	}
}

/* ---- the connection -------------------------------------------------------------------------- */

int dcgm_connect_again(struct dcgm *dcgm, struct err *err)
{
	struct dcgm_connect how = { .version = DCGM_CONNECT_VERSION, .timeout_ms = CONNECT_MS };
	const char *address = engine_address();
	int code;

	dcgm->handle = 0;
	if (!address)
		return err_set(err, -ENODEV, "no DCGM host engine (nv-hostengine) is running");
	how.is_unix = address[0] == '/';
	code = DCGM_CALL(dcgm, connect, address, &how, &dcgm->handle);
	(void) snprintf(dcgm->address, sizeof(dcgm->address), "%s", address);
	if (code == DCGM_OK)
		return 0;
	dcgm->handle = 0;
	if (code == DCGM_VER_MISMATCH)
		return err_set(err, -ELIBBAD,
			"libdcgm and the DCGM host engine at %s have different versions", address);
	if (code == DCGM_CONNECTION_NOT_VALID)
		return err_set(err, -ENODEV, "no DCGM host engine answers at %s", address);
	return err_set(
		err, -EIO, "the DCGM host engine at %s refuses the connection (DCGM code %d)", address, code);
}

const char *dcgm_call_name(unsigned call)
{
	return call > 0 && call <= sizeof(symbols) / sizeof(symbols[0]) ? symbols[call - 1].name : NULL;
}

int dcgm_load(const struct source_env *env, struct dcgm *ret, struct err *err)
{
	struct dcgm dcgm = { .env = env };
	int r;

	if (!engine_address())
		return dcgm_connect_again(&dcgm, err);
	dcgm.library = library_open(
		"HIWATER_DCGM", library_names, sizeof(library_names) / sizeof(library_names[0]));
	if (!dcgm.library)
		return err_set(err, -ENOENT, "a DCGM host engine runs, but libdcgm.so.4 was not found");
	find_symbols(&dcgm);
	r = DCGM_CALL(&dcgm, init);
	if (r != DCGM_OK)
		return err_set(err, -EIO, "libdcgm cannot be initialised (DCGM code %d)", r);
	r = dcgm_connect_again(&dcgm, err);
	if (r == 0)
		*ret = dcgm;
	return r;
}

void dcgm_unload(struct dcgm *dcgm)
{
	if (dcgm->handle)
		(void) DCGM_CALL(dcgm, disconnect, dcgm->handle);
	dcgm->handle = 0;
}
