/* SPDX-License-Identifier: MIT
 *
 * Replays a corpus through a harness with any compiler, so that every input that once failed stays
 * a test: each file of the given folders and files, whole, and truncated at each of its first
 * lengths.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	INPUT_LIMIT = 1 << 20,
	MAX_CUTS = 512
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The block has exactly the input's size, so that a sanitizer detects the first byte read past
 * it. */
static int feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	return 0;
}

static int replay_file(const char *path)
{
	static uint8_t data[INPUT_LIMIT];
	FILE *file = fopen(path, "rb");
	size_t size;
	int r = 0;

	if (!file)
		return -errno;
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	for (size_t cut = 0; r == 0 && cut < size && cut < MAX_CUTS; cut++)
		r = feed(data, cut);
	return r < 0 ? r : feed(data, size);
}

static int replay_folder(const char *path, unsigned *count)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[4096];
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		r = replay_file(name);
		*count += r == 0;
	}
	closedir(dir);
	return r;
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;
		int r = stat(argv[i], &st) < 0 ? -errno : 0;

		if (r == 0 && S_ISDIR(st.st_mode)) {
			r = replay_folder(argv[i], &count);
		} else if (r == 0) {
			r = replay_file(argv[i]);
			count += r == 0;
		}
		if (r < 0) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
			return 1;
		}
	}
	printf("%u inputs replayed\n", count);
	return count > 0 ? 0 : 1;
}
