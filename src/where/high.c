/* SPDX-License-Identifier: MIT */
#include "where/high.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void high_done(struct tree_high *h)
{
	for (size_t i = 0; i < h->n_shares; i++)
		sample_unref(h->shares[i].sample);
	for (size_t i = 0; i < h->n_files; i++)
		free(h->files[i].name);
	free(h->shares);
	free(h->files);
	pythons_done(&h->pythons);
	*h = (struct tree_high) { .shares = NULL };
}

void high_add_file(struct tree_high *h, const struct check_file *file)
{
	struct check_file *files;

	for (size_t i = 0; i < h->n_files; i++) {
		if (h->files[i].inode == file->inode && h->files[i].device == file->device) {
			if (file->bytes > h->files[i].bytes)
				h->files[i].bytes = file->bytes;
			return;
		}
	}
	files = realloc(h->files, (h->n_files + 1) * sizeof(*files));
	if (!files)
		return;
	h->files = files;
	files[h->n_files] = *file;
	files[h->n_files].name = strdup(file->name);
	h->n_files += files[h->n_files].name != NULL;
}

void high_add_share(struct tree_high *h, size_t *cap, struct sample *s, uint64_t bytes)
{
	if (h->n_shares == *cap) {
		const size_t more = *cap ? 2 * *cap : 256;
		struct tree_share *const shares = realloc(h->shares, more * sizeof(*shares));

		if (!shares)
			return;
		h->shares = shares;
		*cap = more;
	}
	sample_ref(s);
	h->shares[h->n_shares++] = (struct tree_share) { s, bytes };
}

size_t high_least_needed(const struct tree_high *highs, size_t n)
{
	size_t least = 1;
	double closest = INFINITY;

	for (size_t i = 1; i + 1 < n; i++) {
		const double before = (double) highs[i - 1].total_bytes + 1;
		const double ratio = (double) highs[i + 1].total_bytes / before;

		if (ratio < closest) {
			closest = ratio;
			least = i;
		}
	}
	return least;
}
