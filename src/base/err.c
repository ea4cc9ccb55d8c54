/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

int err_set(struct err *err, int code, const char *format, ...)
{
	va_list ap;

	if (!err)
		return code;
	va_start(ap, format);
	(void) vsnprintf(err->text, sizeof(err->text), format, ap);
	va_end(ap);
	return code;
}
