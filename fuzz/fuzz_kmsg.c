/* SPDX-License-Identifier: MIT
 *
 * The parser of the kernel's log: one record.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/host/kmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oom_victim victim;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&victim, 'x', sizeof(victim));
	if (kmsg_victim_parse(text, &victim)) {
		REQUIRE(victim.pid > 0 && strnlen(victim.name, OOM_NAME) < OOM_NAME);
		REQUIRE(text[0] >= '0' && text[0] <= '9' && strstr(text, "Killed process "));
	} else {
		REQUIRE(victim.name[0] == 'x'); /* untouched */
	}
	free(text);
	return 0;
}
