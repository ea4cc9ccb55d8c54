/* SPDX-License-Identifier: MIT
 *
 * hiwater.h over the folders: a command as it is told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/json.h"
#include "base/mask.h"

int command_texts(const char *const *argv, char **ret_text, char **ret_json, size_t *ret_cut)
{
	enum {
		ARGUMENT_SIZE = 4096,
		COMMAND_MOST = 1 << 16
	};
	struct buf text = BUF_INIT(COMMAND_MOST), array = BUF_INIT(4 * COMMAND_MOST);
	struct mask mask = { 0 };
	struct json json;

	json_init(&json, &array, true);
	json_array(&json);
	*ret_cut = 0;
	for (size_t i = 0; argv[i]; i++) {
		const size_t len = strlen(argv[i]);
		char word[ARGUMENT_SIZE];

		(void) mask_argument(&mask, argv[i], len, word, sizeof(word));
		if (buf_printf(&text, "%s%s", i ? " " : "", word) == 0)
			json_str(&json, word);
		*ret_cut += len >= sizeof(word) || text.error || array.error;
	}
	json_end(&json);
	*ret_text = strdup(text.data);
	*ret_json = strdup(array.error ? "[]" : array.data);
	buf_done(&text);
	buf_done(&array);
	return *ret_text && *ret_json ? 0 : -ENOMEM;
}
