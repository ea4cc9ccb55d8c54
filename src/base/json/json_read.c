/* SPDX-License-Identifier: MIT
 *
 * The window holds at least AHEAD bytes after the position, or all that is left of the text, whenever a
 * token begins, and a NUL behind its last byte stops every scan. So nearly all strings are returned
 * where they are: their closing quote becomes their NUL. Others (escapes, bytes that are not ASCII,
 * longer than the window) are copied.
 */
#include "base/json/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/textwidth.h"

enum {
	WINDOW = 1 << 20,
	AHEAD = JSON_READ_TEXT * 2,
	ESCAPE = 16, /* bytes that an escape, or a character, may need */
};

/* What may come next. */
enum state {
	AT_VALUE, /* the value of the text, or of a key */
	AT_COLON, /* and a value */
	AT_FIRST, /* in an object or array, at its begin or after a comma: an item, or its end */
	AT_COMMA, /* after an item: a comma and an item, or the end */
	AT_END,
	AT_BROKEN,
	AT_CUT,
};

struct json_read {
	ssize_t (*read)(void *ctx, void *bytes, size_t n);
	void (*close)(void *ctx);
	void *ctx;
	unsigned char *window, *scratch;
	size_t pos, end;
	uint64_t before; /* bytes of the text before the window */
	bool at_end, is_compressed;
	int error; /* of read */
	enum state state;
	bool is_closed; /* the last token is the end of an object */
	unsigned depth;
	bool is_object[JSON_READ_DEPTH];
	const char *text, *why;
	size_t text_len;
	bool is_cut;
	uint64_t offset;
};

int json_read_new(ssize_t (*read)(void *ctx, void *bytes, size_t n), void *ctx, struct json_read **ret)
{
	struct json_read *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->read = read;
	j->ctx = ctx;
	j->text = "";
	j->why = "";
	j->window = malloc(WINDOW + 1);
	j->scratch = malloc(JSON_READ_TEXT + ESCAPE);
	if (!j->window || !j->scratch) {
		json_read_free(j);
		return -ENOMEM;
	}
	j->window[0] = '\0';
	*ret = j;
	return 0;
}

void json_read_free(struct json_read *j)
{
	if (!j)
		return;
	if (j->close)
		j->close(j->ctx);
	free(j->window);
	free(j->scratch);
	free(j);
}

/* ---- files ----------------------------------------------------------------------------------- */

static ssize_t read_plain(void *ctx, void *bytes, size_t n)
{
	ssize_t got;

	do
		got = read((int) (intptr_t) ctx, bytes, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static void close_plain(void *ctx)
{
	(void) close((int) (intptr_t) ctx);
}

/* By inflate itself: gzread loses what it had before damaged data. */
struct gzip {
	z_stream stream;
	int fd, error; /* what ended it, once what came before is returned */
	bool is_at_begin; /* of a member: the file may end here */
	unsigned char in[128 << 10];
};

/* More compressed bytes. Returns 0 or -errno; -ENODATA: there are none. */
static int feed_gzip(struct gzip *g)
{
	const ssize_t n = read_plain((void *) (intptr_t) g->fd, g->in, sizeof(g->in));

	if (n <= 0)
		return n < 0 ? (int) n : -ENODATA;
	g->stream.next_in = g->in;
	g->stream.avail_in = (unsigned) n;
	return 0;
}

static int gzip_error(int rc)
{
	return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

static ssize_t read_gzip(void *ctx, void *bytes, size_t n)
{
	struct gzip *g = ctx;

	g->stream.next_out = bytes;
	g->stream.avail_out = (unsigned) n;
	while (g->stream.avail_out == n && g->error == 0) {
		int rc;

		if (g->stream.avail_in == 0)
			g->error = feed_gzip(g);
		if (g->error == -ENODATA && g->is_at_begin)
			return 0;
		if (g->error < 0)
			break;
		rc = inflate(&g->stream, Z_NO_FLUSH);
		g->is_at_begin = rc == Z_STREAM_END;
		if (rc == Z_STREAM_END)
			rc = inflateReset(&g->stream);
		if (rc != Z_OK && rc != Z_BUF_ERROR)
			g->error = gzip_error(rc);
	}
	return g->stream.avail_out < n ? (ssize_t) (n - g->stream.avail_out) : g->error;
}

static void close_gzip(void *ctx)
{
	struct gzip *g = ctx;

	(void) inflateEnd(&g->stream);
	(void) close(g->fd);
	free(g);
}

/* Takes fd. NULL: out of memory. */
static struct gzip *open_gzip(int fd)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g || inflateInit2(&g->stream, 15 + 16) != Z_OK) {
		free(g);
		return NULL;
	}
	g->fd = fd;
	return g;
}

int json_read_open(const char *path, struct json_read **ret, struct err *err)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	unsigned char magic[2] = { 0 };
	struct json_read *j = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file", path);
	if (pread(fd, magic, 2, 0) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	r = json_read_new(read_plain, NULL, &j);
	if (r < 0)
		return err_set(err, r, "%s: out of memory", path);
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	j->is_compressed = magic[0] == 0x1f && magic[1] == 0x8b;
	if (j->is_compressed) {
		j->ctx = open_gzip(fd);
		if (!j->ctx) {
			json_read_free(j);
			return err_set(err, -ENOMEM, "%s: out of memory", path);
		}
		j->read = read_gzip;
		j->close = close_gzip;
	} else {
		j->ctx = (void *) (intptr_t) fd;
		j->close = close_plain;
	}
	fd = -1;
	*ret = j;
	return 0;
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Moves the window to the position and fills it. False: nothing was added. */
static bool fill(struct json_read *j)
{
	bool added = false;

	if (j->at_end)
		return false;
	memmove(j->window, j->window + j->pos, j->end - j->pos);
	j->before += j->pos;
	j->end -= j->pos;
	j->pos = 0;
	while (j->end < WINDOW && !j->at_end) {
		const ssize_t n = j->read(j->ctx, j->window + j->end, WINDOW - j->end);

		if (n <= 0) {
			j->at_end = true;
			j->error = (int) n;
			break;
		}
		added = true;
		j->end += (size_t) n;
		if (j->end >= AHEAD)
			break;
	}
	j->window[j->end] = '\0';
	return added;
}

static inline bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Passes to the next byte that is no blank; false: there is none. */
static inline bool skip_blanks(struct json_read *j)
{
	for (;;) {
		const unsigned char *p = j->window + j->pos;

		while (is_blank(*p))
			p++;
		j->pos = (size_t) (p - j->window);
		if (j->pos < j->end)
			return true;
		if (!fill(j))
			return false;
	}
}

/* ---- results --------------------------------------------------------------------------------- */

static enum json_token broken(struct json_read *j, const char *why)
{
	j->offset = j->before + j->pos;
	j->why = why;
	j->state = AT_BROKEN;
	return JSON_BROKEN;
}

static const char *cut_why(const struct json_read *j)
{
	switch (j->error) {
	case 0:
		return j->depth ? "the file ends before its last bracket" : "the file ends before its value";
	case -ENODATA:
		return "the file ends within its compressed data";
	case -EBADMSG:
		return "the compressed data are damaged";
	default:
		return strerror(-j->error);
	}
}

static enum json_token cut(struct json_read *j)
{
	j->offset = j->before + j->end;
	j->why = cut_why(j);
	j->state = AT_CUT;
	return JSON_CUT;
}

static inline void after_value(struct json_read *j)
{
	j->state = j->depth ? AT_COMMA : AT_END;
}

/* ---- strings --------------------------------------------------------------------------------- */

#define EACH(byte) (0x0101010101010101ULL * (byte))

/* Passes over the bytes that need no attention: eight at a time, all but '"', '\\', control characters
 * and bytes above 0x7f. */
static inline unsigned char *plain_bytes(unsigned char *p, const unsigned char *end)
{
	while (end - p >= 8) {
		uint64_t w, quote, slash;

		memcpy(&w, p, 8);
		quote = w ^ EACH('"');
		slash = w ^ EACH('\\');
		if (((quote - EACH(1)) | (slash - EACH(1)) | (w - EACH(0x20)) | w) & EACH(0x80))
			break;
		p += 8;
	}
	while (*p != '"' && *p != '\\' && *p >= 0x20 && *p < 0x80)
		p++;
	return p;
}

struct copy {
	struct json_read *j;
	size_t len;
};

static void copy_bytes(struct copy *c, const void *bytes, size_t n)
{
	/* Cut where a character begins. */
	if (c->len + n > JSON_READ_TEXT)
		c->j->is_cut = true;
	if (c->j->is_cut)
		return;
	memcpy(c->j->scratch + c->len, bytes, n);
	c->len += n;
}

static void copy_plain(struct copy *c, const unsigned char *bytes, size_t n)
{
	const size_t room = JSON_READ_TEXT - c->len;

	copy_bytes(c, bytes, n < room ? n : room);
	if (n > room)
		c->j->is_cut = true;
}

static void copy_character(struct copy *c, uint32_t code)
{
	char out[4];

	copy_bytes(c, out, utf8_put(out, code > 0 ? code : 0xfffd));
}

/* The four hexadecimal digits at p; -1: they are not. */
static int32_t four_digits(const unsigned char *p)
{
	int32_t value = 0;

	for (int i = 0; i < 4; i++) {
		const unsigned char c = p[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value << 4 | ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return value;
}

/* The escape at p, which is a backslash. Returns its length; 0: it is none. */
static size_t copy_escape(struct copy *c, const unsigned char *p)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name = p[1] ? strchr(names, p[1]) : NULL;
	int32_t high, low;

	if (name) {
		copy_bytes(c, &values[name - names], 1);
		return 2;
	}
	high = p[1] == 'u' ? four_digits(p + 2) : -1;
	if (high < 0)
		return 0;
	low = high >= 0xd800 && high < 0xdc00 && p[6] == '\\' && p[7] == 'u' ? four_digits(p + 8) : -1;
	if (low >= 0xdc00 && low < 0xe000) {
		copy_character(c, 0x10000 + (((uint32_t) high & 0x3ff) << 10) + ((uint32_t) low & 0x3ff));
		return 12;
	}
	copy_character(c, (uint32_t) high);
	return 6;
}

/* Does the text end within the escape at the position? */
static bool is_cut_escape(const struct json_read *j)
{
	const unsigned char *p = j->window + j->pos;
	const size_t left = j->end - j->pos;
	char digits[] = "0000";

	if (left < 2 || (p[1] == 'u' && left == 2))
		return true;
	if (p[1] != 'u' || left >= 6)
		return false;
	memcpy(digits, p + 2, left - 2);
	return four_digits((const unsigned char *) digits) >= 0;
}

/* What is neither plain nor the end: an escape, a control character, one that is not ASCII. Returns 0 or
 * -EBADMSG. */
static int copy_special(struct copy *c)
{
	struct json_read *j = c->j;
	const unsigned char *p = j->window + j->pos;
	size_t n;

	if (*p == '\\') {
		n = copy_escape(c, p);
		if (n == 0)
			return -EBADMSG;
	} else if (*p < 0x20) {
		copy_character(c, *p);
		n = 1;
	} else {
		n = utf8_length(p);
		if (n)
			copy_bytes(c, p, n);
		else
			copy_character(c, 0xfffd);
		n = n ? n : 1;
	}
	j->pos = j->pos + n < j->end ? j->pos + n : j->end;
	return 0;
}

/* The rest of a string whose first bytes, up to the position, are copied. */
static enum json_token read_special(struct json_read *j, struct copy *c, enum json_token token)
{
	for (;;) {
		unsigned char *p, *end;

		if (j->end - j->pos < ESCAPE)
			(void) fill(j);
		p = j->window + j->pos;
		end = plain_bytes(p, j->window + j->end);
		copy_plain(c, p, (size_t) (end - p));
		j->pos = (size_t) (end - j->window);
		if (j->pos >= j->end) {
			if (!j->at_end)
				continue;
			return cut(j);
		}
		if (*end == '"')
			break;
		if (j->end - j->pos < ESCAPE && !j->at_end)
			continue;
		if (copy_special(c) < 0)
			return is_cut_escape(j) ? cut(j) : broken(j, "an escape is not one of JSON's");
	}
	j->scratch[c->len] = '\0';
	j->text = (const char *) j->scratch;
	j->text_len = c->len;
	j->pos++;
	return token;
}

/* The string at the position. */
static enum json_token read_string(struct json_read *j, enum json_token token)
{
	unsigned char *first = j->window + j->pos + 1;
	unsigned char *p = plain_bytes(first, j->window + j->end);
	const size_t len = (size_t) (p - first);
	struct copy c = { j, 0 };

	j->is_cut = false;
	if (*p == '"' && len <= JSON_READ_TEXT) {
		*p = '\0';
		j->text = (const char *) first;
		j->text_len = len;
		j->pos += len + 2;
		return token;
	}
	copy_plain(&c, first, len);
	j->pos += len + 1;
	return read_special(j, &c, token);
}

/* ---- other values ---------------------------------------------------------------------------- */

static inline bool is_of_number(unsigned char c)
{
	return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || (c | 0x20) == 'e';
}

/* The number at the position: digits, or one of the words. It may be longer than the window. */
static enum json_token read_number(struct json_read *j)
{
	struct copy c = { j, 0 };

	j->is_cut = false;
	do {
		const unsigned char *p = j->window + j->pos, *end = p;

		while (is_of_number(*end))
			end++;
		copy_plain(&c, p, (size_t) (end - p));
		j->pos += (size_t) (end - p);
	} while (j->pos == j->end && fill(j));
	j->scratch[c.len] = '\0';
	j->text = (const char *) j->scratch;
	j->text_len = c.len;
	/* A number that ends with the text may have been longer. */
	if (j->pos == j->end && j->depth)
		return cut(j);
	after_value(j);
	return JSON_NUMBER;
}

/* The word at the position, true or NaN. */
static enum json_token read_word(struct json_read *j)
{
	static const struct {
		const char *word;
		enum json_token token;
	} words[] = {
		{ "true", JSON_TRUE },
		{ "false", JSON_FALSE },
		{ "null", JSON_NULL },
		{ "NaN", JSON_NUMBER },
		{ "nan", JSON_NUMBER },
		{ "-nan", JSON_NUMBER },
		{ "Infinity", JSON_NUMBER },
		{ "-Infinity", JSON_NUMBER },
		{ "inf", JSON_NUMBER },
		{ "-inf", JSON_NUMBER },
	};
	const char *p = (const char *) j->window + j->pos;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const size_t len = strlen(words[i].word), left = j->end - j->pos;

		if (left < len && j->at_end && left > 0 && memcmp(words[i].word, p, left) == 0)
			return cut(j);
		if (left < len || memcmp(words[i].word, p, len) != 0)
			continue;
		j->text = words[i].word;
		j->text_len = len;
		j->pos += len;
		after_value(j);
		return words[i].token;
	}
	return broken(j, "a value was expected");
}

static enum json_token begin(struct json_read *j, bool is_object)
{
	if (j->depth == JSON_READ_DEPTH)
		return broken(j, "it is nested too deep");
	j->pos++;
	j->is_object[j->depth++] = is_object;
	j->state = AT_FIRST;
	return is_object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token end(struct json_read *j)
{
	j->pos++;
	j->depth--;
	after_value(j);
	j->is_closed = j->is_object[j->depth];
	return j->is_closed ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_token read_value(struct json_read *j)
{
	const unsigned char *p = j->window + j->pos;
	enum json_token token;

	switch (*p) {
	case '"':
		token = read_string(j, JSON_STRING);
		if (token == JSON_STRING)
			after_value(j);
		return token;
	case '{':
		return begin(j, true);
	case '[':
		return begin(j, false);
	case '-':
		return p[1] >= '0' && p[1] <= '9' ? read_number(j) : read_word(j);
	default:
		return *p >= '0' && *p <= '9' ? read_number(j) : read_word(j);
	}
}

/* A key or an item, or the end of the object or array. */
static enum json_token read_item(struct json_read *j)
{
	const bool is_object = j->is_object[j->depth - 1];
	const unsigned char c = j->window[j->pos];
	enum json_token token;

	if (c == (is_object ? '}' : ']'))
		return end(j);
	if (!is_object)
		return read_value(j);
	if (c != '"')
		return broken(j, "a key or '}' was expected");
	token = read_string(j, JSON_KEY);
	if (token == JSON_KEY)
		j->state = AT_COLON;
	return token;
}

enum json_token json_read_next(struct json_read *j)
{
	if (j->end - j->pos < AHEAD)
		(void) fill(j);
	if (j->state == AT_BROKEN)
		return JSON_BROKEN;
	if (j->state == AT_CUT)
		return JSON_CUT;
	if (!skip_blanks(j)) {
		if (j->state != AT_END || j->error)
			return cut(j);
		j->offset = j->before + j->end;
		return JSON_END;
	}
	if (j->state == AT_COLON) {
		if (j->window[j->pos] != ':')
			return broken(j, "a colon was expected after a key");
		j->pos++;
		j->state = AT_VALUE;
		if (!skip_blanks(j))
			return cut(j);
	} else if (j->state == AT_COMMA) {
		if (j->window[j->pos] == ',') {
			j->pos++;
			j->state = AT_FIRST;
			if (!skip_blanks(j))
				return cut(j);
		} else if (j->window[j->pos] != (j->is_object[j->depth - 1] ? '}' : ']')) {
			return broken(j, "a comma or a closing bracket was expected");
		}
	}
	j->offset = j->before + j->pos;
	j->is_closed &= j->state == AT_END;
	switch (j->state) {
	case AT_VALUE:
		return read_value(j);
	case AT_FIRST:
		return read_item(j);
	case AT_COMMA:
		return end(j);
	case AT_COLON:
	case AT_END:
	case AT_BROKEN:
	case AT_CUT:
		break;
	}
	return broken(j, "something follows the end of the JSON text");
}

enum json_token json_read_skip(struct json_read *j)
{
	/* Within an object or array that was begun: to its end; after a key: its value. */
	const unsigned until = j->state == AT_COLON ? j->depth : j->depth - 1;
	enum json_token token;

	do
		token = json_read_next(j);
	while (token < JSON_END && j->depth > until);
	return token;
}

/* ---- resumption ------------------------------------------------------------------------------ */

/* The byte after the position + n that is no blank; '\0': the text ends there. */
static unsigned char peek(const struct json_read *j, size_t *n)
{
	const unsigned char *p = j->window + j->pos + *n;

	while (is_blank(*p))
		p++;
	*n = (size_t) (p - (j->window + j->pos));
	return *p;
}

/* Is the "]" at the position, after a "}", the end of the array of events? Then the text ends with it, or
 * with a "}" after it, or a key follows. */
static bool looks_like_end(struct json_read *j)
{
	size_t n = 1;
	unsigned char c;

	if (j->end - j->pos < AHEAD)
		(void) fill(j);
	c = peek(j, &n);
	if (c == '\0')
		return j->at_end;
	n++;
	if (c == '}')
		return peek(j, &n) == '\0' && j->at_end;
	return c == ',' && peek(j, &n) == '"';
}

bool json_read_resume(struct json_read *j, unsigned depth)
{
	unsigned char last = j->is_closed ? '}' : '\0', before = '\0'; /* that are no blanks */

	if (depth == 0 || depth > JSON_READ_DEPTH || j->state != AT_BROKEN)
		return false;
	j->depth = depth;
	j->is_object[depth - 1] = false;
	for (; skip_blanks(j); j->pos++) {
		const unsigned char c = j->window[j->pos];
		size_t n = 1;

		if (c == '{' && last == ',' && before == '}') {
			if (j->end - j->pos < AHEAD)
				(void) fill(j);
			if (peek(j, &n) == '"') {
				j->state = AT_FIRST;
				return true;
			}
		} else if (c == ']' && last == '}' && looks_like_end(j)) {
			j->state = AT_COMMA;
			return true;
		}
		before = last;
		last = c;
	}
	(void) cut(j);
	return false;
}

/* ---- what was read --------------------------------------------------------------------------- */

const char *json_read_text(const struct json_read *j, size_t *len)
{
	if (len)
		*len = j->text_len;
	return j->text;
}

bool json_read_is_cut(const struct json_read *j)
{
	return j->is_cut;
}

unsigned json_read_depth(const struct json_read *j)
{
	return j->depth;
}

uint64_t json_read_offset(const struct json_read *j)
{
	return j->offset;
}

bool json_read_is_compressed(const struct json_read *j)
{
	return j->is_compressed;
}

const char *json_read_why(const struct json_read *j)
{
	return j->why;
}

int json_read_scaled(const struct json_read *j, unsigned digits, int64_t *ret)
{
	return j->is_cut ? -ERANGE : json_scaled(j->text, j->text_len, digits, ret);
}

/* A decimal number in parts: its digits are those of text from first on, without the point. */
struct decimal {
	bool negative;
	const char *digits, *end; /* with a point somewhere */
	int64_t exponent;         /* of the first digit's place: 0 are ones */
};

static int read_exponent(const char *p, const char *end, int64_t *ret)
{
	bool negative = false;
	int64_t value = 0;

	if (p < end && (*p == '-' || *p == '+'))
		negative = *p++ == '-';
	if (p == end)
		return -EINVAL;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
		value = value < 1000000 ? value * 10 + (*p - '0') : value;
	}
	*ret = negative ? -value : value;
	return 0;
}

static int read_decimal(const char *text, size_t len, struct decimal *ret)
{
	const char *p = text, *end = text + len, *point = NULL;
	bool has_digit = false;
	int64_t shift = 0;

	ret->negative = p < end && *p == '-';
	p += ret->negative;
	ret->digits = p;
	for (; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++) {
		if (*p == '.')
			point = p;
		else
			has_digit = true;
	}
	ret->end = p;
	if (!has_digit || (p < end && (*p | 0x20) != 'e'))
		return -EINVAL;
	if (p < end && read_exponent(p + 1, end, &shift) < 0)
		return -EINVAL;
	ret->exponent = (point ? point : p) - ret->digits - 1 + shift;
	return 0;
}

/* Nearly all numbers: at most 18 digits, no exponent, not more decimals than are wanted. */
static bool scale_short(const char *text, size_t len, unsigned digits, int64_t *ret)
{
	const char *p = text, *end = text + len, *point = NULL;
	int64_t value = 0;
	bool negative;

	if (len == 0 || len > 18)
		return false;
	negative = *p == '-';
	p += negative;
	for (; p < end; p++) {
		if (*p >= '0' && *p <= '9')
			value = value * 10 + (*p - '0');
		else if (*p == '.' && !point)
			point = p + 1;
		else
			return false;
		if (point && (size_t) (p + 1 - point) > digits)
			return false;
	}
	if (end[-1] < '0')
		return false;
	for (size_t n = point ? (size_t) (end - point) : 0; n < digits; n++) {
		if (value > INT64_MAX / 10)
			return false;
		value *= 10;
	}
	*ret = negative ? -value : value;
	return true;
}

int json_scaled(const char *text, size_t len, unsigned digits, int64_t *ret)
{
	struct decimal d;
	uint64_t value = 0;
	int64_t place;
	int r;

	if (scale_short(text, len, digits, ret))
		return 0;
	r = read_decimal(text, len, &d);
	if (r < 0)
		return r;
	/* The place of the current digit; those below 0 are cut off. */
	place = d.exponent + digits;
	for (const char *p = d.digits; p < d.end && place >= 0; p++) {
		if (*p == '.')
			continue;
		if (value > (UINT64_MAX - 9) / 10)
			return -ERANGE;
		value = value * 10 + (uint64_t) (*p - '0');
		place--;
	}
	for (; place >= 0 && value; place--) {
		if (value > UINT64_MAX / 10)
			return -ERANGE;
		value *= 10;
	}
	if (value > (uint64_t) INT64_MAX + d.negative)
		return -ERANGE;
	*ret = (int64_t) (d.negative ? 0 - value : value);
	return 0;
}
