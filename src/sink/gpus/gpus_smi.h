/* SPDX-License-Identifier: MIT
 *
 * Fields of nvidia-smi's queries, for scripts that parse its output: hiwater writes the same words,
 * units and header. A field is a row of gpus_smi_fields.c.
 */
#pragma once

#include "sink/gpus/gpus_internal.h"

/* The form of a value, which determines the unit in the header. */
enum smi_form {
	SMI_TEXT,
	SMI_COUNT,
	SMI_PERCENT,  /* of ppm: "12 %" */
	SMI_MIB,      /* of bytes: "12 MiB" */
	SMI_WATTS,    /* of uW: "70.00 W" */
	SMI_MHZ,      /* of Hz: "345 MHz" */
	SMI_CELSIUS,  /* of thousandths: "31" */
	SMI_MICROS,   /* of ns: "12 us" */
	SMI_ENABLED,  /* "Enabled", "Disabled" */
	SMI_YES,      /* "Yes", "No" */
	SMI_MASK16,   /* "0x0000000000000001" */
	SMI_MASK8,    /* "0x233010DE" */
	SMI_STATE,    /* "P0" */
	SMI_OWN,      /* written by own */
};

enum smi_from {
	FROM_METRIC,
	FROM_FACT,
	FROM_BIRTH, /* read by own; no request needed */
};

struct smi_field {
	const char *name, *alias[2]; /* aliases: NULL if there is none */
	enum smi_form form;
	enum smi_from from;
	int which;                   /* enum metric, enum gpu_fact; for own, its own meaning */
	/* Writes the value; false: unavailable. Of SMI_OWN and FROM_BIRTH. user: NULL except for
	 * processes. */
	bool (*own)(const struct gpus_now *now, const struct gpu_now *gpu, const struct gpu_user_now *user,
		const struct smi_field *field, struct buf *out);
	const char *sentence;
};

/* Appends a foreign text (cleaned by gpus_now_text) so that it stays one field: a comma becomes a
 * semicolon. */
void smi_put_text(struct buf *out, const char *text);

extern const struct smi_field smi_gpu_fields[], smi_app_fields[];
extern const size_t smi_n_gpu_fields, smi_n_app_fields;
