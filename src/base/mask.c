/* SPDX-License-Identifier: MIT */
#include "base/mask.h"

#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- names ----------------------------------------------------------------------------------- */

/* Names are split into words at '-', '_' and '.'. The last one decides, without numbers behind it
 * ("API_KEY_1", but not "key_frames"). It names a secret if it, or its part from the last capital on
 * ("AccountKey"), is one of these ... */
static const char *const whole[] = { "key", "keys", "pwd", "pass", "pw", "auth", "authorization", "bearer",
	"cookie" };
/* ... or if it ends in one of these ("authToken"; but not "tokenizer", "max_tokens" or "monkey"). */
static const char *const tails[] = { "token", "credential", "credentials", "apikey", "accesskey", "secretkey",
	"privatekey", "authkey" };
/* Any word that ends in one of these does ("DB_PASSWORD_PROD"). */
static const char *const passwords[] = { "password", "passwd", "passphrase", "secret", "secrets" };

static bool is_one_of(const char *const *list, size_t n, const char *word, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		if (len == strlen(list[i]) && strncasecmp(word, list[i], len) == 0)
			return true;
	}
	return false;
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return is_lower(c) || is_upper(c);
}

static bool ends_in(const char *const *list, size_t n_list, const char *word, size_t len)
{
	for (size_t i = 0; i < n_list; i++) {
		const size_t n = strlen(list[i]);

		if (len >= n && strncasecmp(word + len - n, list[i], n) == 0)
			return true;
	}
	return false;
}

static bool word_is_secret(const char *word, size_t len)
{
	size_t part = len;

	while (part > 1 && !(is_upper(word[part - 1]) && is_lower(word[part - 2])))
		part--;
	if (is_one_of(whole, COUNT(whole), word, len) ||
		(part > 1 && is_one_of(whole, COUNT(whole), word + part - 1, len - part + 1)))
		return true;
	return ends_in(tails, COUNT(tails), word, len);
}

static bool is_word_end(char c)
{
	return c == '-' || c == '_' || c == '.';
}

static bool has_password(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const size_t from = i;

		while (i < len && !is_word_end(name[i]))
			i++;
		if (ends_in(passwords, COUNT(passwords), name + from, i - from))
			return true;
	}
	return false;
}

/* The last word, without numbers behind it. Returns its length. */
static size_t last_word(const char *name, size_t len, const char **ret)
{
	size_t from;

	while (len > 0 && (is_digit(name[len - 1]) || is_word_end(name[len - 1])))
		len--;
	for (from = len; from > 0 && !is_word_end(name[from - 1]); from--)
		;
	*ret = name + from;
	return len - from;
}

bool mask_is_secret(const char *name, size_t len)
{
	const char *word;
	const size_t n = last_word(name, len, &word);

	return has_password(name, len) || (n > 0 && word_is_secret(word, n));
}

/* A password may be a short number; other secrets are longer. */
static bool is_password(const char *name, size_t len)
{
	static const char *const pwd[] = { "pwd" };
	const char *word;
	const size_t n = last_word(name, len, &word);

	return has_password(name, len) || ends_in(pwd, COUNT(pwd), word, n);
}

/* "3", "0.5", "3ms": a number of at most most characters, perhaps with a unit. */
static bool is_small_number(const char *p, const char *end, ptrdiff_t most)
{
	static const char *const units[] = { "%", "x", "s", "ms", "us", "ns", "min", "h", "d", "k", "M", "G", "B",
		"kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "Hz" };
	const char *unit = p;

	while (unit < end && (is_digit(*unit) || (*unit == '.' && unit > p)))
		unit++;
	if (end - p > most || unit == p)
		return false;
	return unit == end || is_one_of(units, COUNT(units), unit, (size_t) (end - unit));
}

/* Names that count only with "=" behind them, as in signed URLs: sig, X-Amz-Signature. */
static bool is_signature(const char *name, const char *end)
{
	static const char tail[] = "signature";
	const size_t n = sizeof(tail) - 1;

	if ((size_t) (end - name) >= n && strncasecmp(end - n, tail, n) == 0)
		return true;
	return end - name >= 3 && strncasecmp(end - 3, "sig", 3) == 0 &&
	       (end - name == 3 || is_word_end(end[-4]));
}

/* ---- scanning -------------------------------------------------------------------------------- */

/* Input and output. */
struct scan {
	const char *begin, *p, *end;
	char *out;
	size_t n, size;
	bool keeps_control; /* control characters stay */
};

static void put(struct scan *s, char c)
{
	const bool is_control = !s->keeps_control && ((unsigned char) c < ' ' || c == 127);

	if (s->n + 1 < s->size)
		s->out[s->n++] = is_control ? '?' : c;
}

static void put_to(struct scan *s, const char *to)
{
	while (s->p < to)
		put(s, *s->p++);
}

static void put_stars(struct scan *s)
{
	for (int i = 0; i < 3; i++)
		put(s, '*');
}

static bool is_name(char c)
{
	return is_letter(c) || is_digit(c) || is_word_end(c);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

/* In a string within a string: \" */
static bool is_quoting(char c)
{
	return is_quote(c) || c == '\\';
}

static const char *skip(const char *p, const char *end, bool (*is)(char))
{
	while (p < end && is(*p))
		p++;
	return p;
}

/* ---- values behind names --------------------------------------------------------------------- */

/* The end of the value at p: a header's ("Bearer abc") is the end of its string, others end at
 * separators of words in a shell or a URL. */
static const char *value_end(const char *p, const char *end, bool header)
{
	const char *stop = header ? "\"'\n" : " \t\r\n&;\"'", *begin = p;

	for (; p < end; p++) {
		if (*p == '\0' || !strchr(stop, *p))
			continue;
		/* a quote that opens belongs to the string: 'password: X; key: "X"' */
		if (!header || *p == '\n' || p == begin || !(is_blank(p[-1]) || p[-1] == ':' || p[-1] == '='))
			return p;
		p = memchr(p + 1, *p, (size_t) (end - p - 1));
		if (!p)
			return end;
	}
	return p;
}

/* The end of a value that began behind a quote: its closing quote, or the backslash of that. */
static const char *quoted_end(const struct scan *s, const char *value)
{
	const char quote = value[-1];
	const bool is_escaped = value - 1 > s->begin && value[-2] == '\\';
	const char *p = value;

	for (; p < s->end && *p != quote; p++) {
		if (*p == '\\' && is_escaped && p + 1 < s->end && p[1] == quote)
			return p;
		p += !is_escaped && quote == '"' && *p == '\\' && p + 1 < s->end;
	}
	return p;
}

/* Skips "=", ": ", "\": \"" and the like after a name. Returns the start of the value, or NULL
 * if there is none. */
static const char *value_begin(const char *p, const char *end, bool *ret_header)
{
	const char *q = skip(skip(p, end, is_quoting), end, is_blank);

	if (q >= end || (*q != '=' && *q != ':'))
		return NULL;
	bool colon = *q == ':';

	q = skip(q + 1, end, is_blank);
	const char *value = q;

	while (value < end && *value == '\\')
		value++;
	value = value < end && is_quote(*value) ? value + 1 : q;
	*ret_header = colon && value == q && value_end(value, end, false) < end;
	return value;
}

enum {
	NUMBER_MOST = 6, /* characters of a number that is shown: a secret is longer ... */
	COUNT_MOST = 2   /* ... and a password too */
};

/* The end of the first word of the value at p, without punctuation behind it. */
static const char *first_word_end(const char *p, const char *end)
{
	const char *q = value_end(p, end, false);

	while (q > p && strchr(",.:)]}", q[-1]))
		q--;
	return q;
}

/* Writes the text before value, then masks the value. A quoted one ends at its quote. numbers: small ones are
 * shown. */
static void mask_value(struct scan *s, const char *value, bool header, bool numbers)
{
	put_to(s, value);
	if (value == s->end)
		return;
	const char *end = value > s->begin && is_quote(value[-1]) ? quoted_end(s, value)
								  : value_end(value, s->end, header);

	if (numbers && is_small_number(value, first_word_end(value, end), NUMBER_MOST))
		return;
	if (end > value)
		put_stars(s);
	s->p = end;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

/* A user that is a token: long, letters and digits. */
static bool is_random(const char *p, const char *end)
{
	enum {
		LEAST = 16
	};
	bool has_letter = false, has_digit = false;

	for (const char *q = p; q < end; q++) {
		if (!is_letter(*q) && !is_digit(*q) && *q != '_' && *q != '-')
			return false;
		has_letter |= is_letter(*q);
		has_digit |= is_digit(*q);
	}
	return end - p >= LEAST && has_letter && has_digit;
}

/* Masks X if the text at s->p is "://user:X@", or "://X@" and X looks random. */
static bool mask_userinfo(struct scan *s)
{
	const char *p = s->p + 3, *at = NULL;

	if (s->end - s->p < 3 || memcmp(s->p, "://", 3) != 0)
		return false;
	for (const char *q = p; q < s->end && *q != '/' && !is_blank(*q) && !is_quote(*q); q++) {
		if (*q == '@')
			at = q;
	}
	const char *colon = at ? memchr(p, ':', (size_t) (at - p)) : NULL;

	if (!colon && !(at && is_random(p, at)))
		return false;
	if (is_random(p, colon ? colon : at)) {
		put_to(s, p);
		put_stars(s);
		s->p = colon ? colon : at;
	}
	if (colon) {
		put_to(s, colon + 1);
		put_stars(s);
		s->p = at;
	}
	return true;
}

/* ---- tokens by their shape ------------------------------------------------------------------- */

/* '?' is any letter. least: characters after the prefix. */
static const struct shape {
	const char *prefix, *also; /* also: characters apart from letters and digits */
	size_t least;
	bool needs_digit;
	bool is_run; /* the first least characters are letters and digits alone */
} shapes[] = {
	{ "gh?_", "", 20, false, false }, /* GitHub: ghp_, gho_, ghu_, ghs_, ghr_ */
	{ "github_pat_", "_", 20, false, false },
	{ "glpat-", "-_", 16, false, false },
	{ "hf_", "", 20, false, false },
	{ "sk-proj-", "-_", 20, true, false },
	{ "sk-svcacct-", "-_", 20, true, false },
	{ "sk-admin-", "-_", 20, true, false },
	{ "sk-ant-", "-_", 20, true, false },
	{ "sk-or-", "-_", 20, true, false },
	{ "sk-", "-_", 20, true, true }, /* but not sk-learn-pipeline-v1-2024 */
	{ "sk_live_", "", 16, false, false },
	{ "rk_live_", "", 16, false, false },
	{ "xox?-", "-", 10, true, false }, /* Slack */
	{ "npm_", "", 30, false, false },
	{ "pypi-", "-_", 30, true, false },
};

static size_t prefix_len(const char *p, const char *end, const char *prefix)
{
	size_t n = 0;

	for (; prefix[n]; n++) {
		if (p + n >= end || (prefix[n] == '?' ? !is_letter(p[n]) : p[n] != prefix[n]))
			return 0;
	}
	return n;
}

/* A JSON web token: "eyJ...", two dots. */
static const char *web_token_end(const char *p, const char *end)
{
	enum {
		LEAST = 10
	};
	int parts = 0;

	if (prefix_len(p, end, "eyJ") == 0)
		return NULL;
	for (const char *from = p;; parts++) {
		const char *q = from;

		while (q < end && (is_letter(*q) || is_digit(*q) || *q == '-' || *q == '_'))
			q++;
		if (parts < 2 && q - from < LEAST)
			return NULL;
		if (q >= end || *q != '.')
			return parts >= 2 ? q : NULL;
		from = q + 1;
	}
}

/* The end of the token at p; NULL: there is none. *ret_shown: the end of what may be shown of it. */
static const char *token_end(const char *p, const char *end, const char **ret_shown)
{
	*ret_shown = p;
	for (size_t i = 0; i < COUNT(shapes); i++) {
		const struct shape *shape = &shapes[i];
		const size_t n = prefix_len(p, end, shape->prefix);
		const char *q = p + n;
		bool has_digit = false;
		size_t run = 0;

		if (n == 0)
			continue;
		for (; q < end && (is_letter(*q) || is_digit(*q) || (*q && strchr(shape->also, *q))); q++) {
			has_digit |= is_digit(*q);
			run += run == (size_t) (q - p) - n && !strchr(shape->also, *q);
		}
		if ((shape->is_run ? run : (size_t) (q - p) - n) < shape->least ||
			(shape->needs_digit && !has_digit))
			continue;
		*ret_shown = p + n;
		return q;
	}
	return web_token_end(p, end);
}

/* Masks the tokens in the name at s->p, which ends at end. False: there are none. */
static bool mask_tokens(struct scan *s, const char *end)
{
	const char *shown, *at;
	bool found = false;

	for (const char *p = s->p; p < end; p++) {
		if ((p > s->p && !is_word_end(p[-1])) || !(at = token_end(p, end, &shown)))
			continue;
		put_to(s, shown);
		put_stars(s);
		s->p = at;
		p = at - 1;
		found = true;
	}
	if (found)
		put_to(s, end);
	return found;
}

/* ---- options of programs --------------------------------------------------------------------- */

/* names: of programs, separated by blanks. letters: options whose value is a secret: attached (-pX), separate
 * (-p X); pair: its value is user:X. */
struct mask_tool {
	const char *names;
	const char *attached, *separate, *pair;
	char between; /* in a pair */
};

static const struct mask_tool tools[] = {
	/* mysql's "-p X": X is the database */
	{ "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlslap mysqlpump mysqlbinlog mysqlsh", "p",
		"", "", 0 },
	{ "mariadb mariadb-dump mariadb-admin mariadb-import mariadb-show mariadb-check mariadb-slap "
	  "mariadb-binlog mariadb-backup mariabackup",
		"p", "", "", 0 },
	{ "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles", "p", "p", "",
		0 },
	{ "redis-cli redis-benchmark valkey-cli valkey-benchmark", "a", "a", "", 0 },
	{ "curl wget", "", "", "uU", ':' },
	{ "http https", "", "", "a", ':' },
	{ "smbclient", "", "", "U", '%' },
	{ "sshpass", "p", "p", "", 0 },
	{ "ldapsearch ldapadd ldapmodify ldapdelete ldapmodrdn ldapcompare ldapwhoami ldappasswd ldapexop", "w", "w",
		"", 0 },
	{ "zip unzip", "P", "P", "", 0 },
	{ "7z 7za 7zr 7zz", "p", "", "", 0 },
};
static const struct mask_tool login = { "login", "p", "p", "", 0 }; /* docker login */

/* Programs and words of a shell that are followed by another command. */
static const char *const wrappers[] = { "sudo", "doas", "env", "nohup", "time", "timeout", "nice", "ionice",
	"chrt", "taskset", "numactl", "setsid", "stdbuf", "xargs", "strace", "ltrace", "perf", "watch", "su",
	"runuser", "chroot", "unshare", "nsenter", "flock", "parallel", "exec", "command", "eval", "srun",
	"mpirun", "mpiexec", "hiwater", "ssh", "proxychains", "if", "then", "else", "elif", "do", "while",
	"until", "!", "{" };
static const char *const containers[] = { "docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "incus",
	"singularity", "apptainer" };

static bool is_tool(const struct mask_tool *tool, const char *word, size_t len)
{
	for (const char *p = tool->names; *p; p += strspn(p, " ")) {
		const size_t n = strcspn(p, " ");

		if (len == n && memcmp(word, p, n) == 0)
			return true;
		p += n;
	}
	return false;
}

/* A word other than an option: does it name the program? Or one further on: what starts another program is
 * not always known. */
static void see_program(struct mask *m, const char *word, size_t len)
{
	const bool is_value = m->after_option && (m->has_values || !m->wraps);

	for (const char *p = word + len; p > word; p--) {
		if (p[-1] == '/') {
			len -= (size_t) (p - word);
			word = p;
			break;
		}
	}
	if (m->started && is_value)
		return;
	for (size_t i = 0; i < COUNT(tools); i++) {
		if (is_tool(&tools[i], word, len))
			m->tool = &tools[i];
	}
	if (m->has_values && is_tool(&login, word, len))
		m->tool = &login;
	if (!m->started || is_one_of(containers, COUNT(containers), word, len)) {
		m->has_values = is_one_of(containers, COUNT(containers), word, len);
		m->wraps = m->has_values || is_one_of(wrappers, COUNT(wrappers), word, len);
	}
	m->started = true;
}

enum treatment {
	SHOWN,
	STARS,    /* the word is a secret */
	ATTACHED, /* from its third character on */
	PAIR      /* behind ret_from and the first colon */
};

/* "--token", "-token": the value is the next argument. */
static bool is_option(const char *arg, size_t len)
{
	return len > 1 && arg[0] == '-' && skip(arg, arg + len, is_name) == arg + len &&
	       mask_is_secret(arg, len);
}

static bool has_letter(const char *letters, char c)
{
	return c != '\0' && strchr(letters, c) != NULL;
}

/* curl's -u, --user, and clusters such as -su */
static enum treatment see_pair_option(struct mask *m, const char *word, size_t len, size_t *ret_from)
{
	static const char *const names[] = { "--user", "--proxy-user" };

	for (size_t i = 0; i < COUNT(names) && has_letter(m->tool->pair, 'u'); i++) {
		const size_t n = strlen(names[i]);

		if (len < n || memcmp(word, names[i], n) != 0)
			continue;
		m->pair_next = len == n;
		*ret_from = n + 1;
		return len > n + 1 && word[n] == '=' ? PAIR : SHOWN;
	}
	if (word[1] == '-')
		return SHOWN;
	if (has_letter(m->tool->pair, word[1]) && len > 2) {
		*ret_from = 2;
		return PAIR;
	}
	m->pair_next = has_letter(m->tool->pair, word[len - 1]) &&
		       skip(word + 1, word + len, is_letter) == word + len;
	return SHOWN;
}

/* Is word, which begins with '-', an option whose value may follow at once? */
static bool has_attached(const struct mask *m, const char *word)
{
	return m->tool && word[0] == '-' && has_letter(m->tool->attached, word[1]);
}

static enum treatment see_option(struct mask *m, const char *word, size_t len, size_t *ret_from)
{
	if (len > 2 && word[1] != '-' && has_attached(m, word))
		return ATTACHED;
	m->value_next = is_option(word, len);
	m->number_most = is_password(word, len) ? 0 : NUMBER_MOST;
	if (m->value_next || !m->tool)
		return SHOWN;
	if (m->tool->pair[0])
		return see_pair_option(m, word, len, ret_from);
	m->value_next = len == 2 && has_letter(m->tool->separate, word[1]);
	m->number_most = COUNT_MOST; /* "zip -P 4 threads": ordinary text */
	return SHOWN;
}

/* The next word of a command. */
static enum treatment see_word(struct mask *m, const char *word, size_t len, size_t *ret_from)
{
	const bool is_dashed = len > 1 && word[0] == '-';
	/* "-x" and "--x" are options, "-abc" may be a value */
	const bool is_value = len > 0 && !(is_dashed && (len == 2 || word[1] == '-'));
	const bool value_next = m->value_next, pair_next = m->pair_next;

	if (len == 0)
		return SHOWN;
	m->value_next = m->pair_next = false;
	*ret_from = 0;
	if (value_next && is_value && !is_small_number(word, word + len, m->number_most))
		return STARS;
	if (pair_next && is_value)
		return PAIR;
	if (is_dashed) {
		m->after_option = !(len == 2 && word[1] == '-');
		return see_option(m, word, len, ret_from);
	}
	/* NAME=VALUE before a command is its environment */
	if (!(skip(word, word + len, is_name) < word + len && *skip(word, word + len, is_name) == '='))
		see_program(m, word, len);
	m->after_option = false;
	return SHOWN;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "pass: 2 of 3", "token: 12 seen": ordinary words in ordinary text, unlike "password: X" and "X-Api-Key: X". */
static bool is_prose(const char *name, const char *end, const char *value, const char *text_end)
{
	static const char *const words[] = { "key", "keys", "pass", "pw", "pwd", "token", "auth", "credential",
		"credentials" };

	return *end == ':' && value > end + 1 && !is_quote(value[-1]) &&
	       !is_random(value, first_word_end(value, text_end)) &&
	       is_one_of(words, COUNT(words), name, (size_t) (end - name));
}

/* Writes the name at s->p and masks its value. */
static void mask_name(struct scan *s)
{
	const char *name = s->p, *end = skip(name, s->end, is_name);
	bool header = false;

	if (mask_tokens(s, end))
		return;
	const char *value = NULL;

	if (mask_is_secret(name, (size_t) (end - name))) {
		value = value_begin(end, s->end, &header);
		if (value && is_prose(name, end, value, s->end))
			value = NULL;
	} else if (end < s->end && *end == '=' && is_signature(name, end)) {
		value = end + 1;
	}
	if (value)
		mask_value(s, value, header, !is_password(name, (size_t) (end - name)));
	else
		put_to(s, end);
}

/* Masks one word as decided; it ends at end, or at its closing quote. */
static void mask_word(struct scan *s, enum treatment how, size_t from, const char *end, char between)
{
	const char *value = s->p + (how == ATTACHED ? 2 : from);

	if (s->p > s->begin && is_quote(s->p[-1]))
		end = quoted_end(s, s->p);
	if (how == PAIR) {
		value = memchr(value, between, (size_t) (end - value));
		value = value ? value + 1 : end; /* without one the program will ask for it */
	}
	put_to(s, value);
	if (value < s->end && value == end && how == ATTACHED) /* -p'X' */
		return mask_value(s, value + 1, false, false);
	if (value < end)
		put_stars(s);
	s->p = end;
}

static bool ends_command(char c)
{
	return c == ';' || c == '|' || c == '&' || c == '(' || c == ')' || c == '`' || c == '\n';
}

static bool is_in_word(char c)
{
	return !is_blank(c) && !is_quoting(c) && !ends_command(c);
}

static bool begins_word(const struct scan *s)
{
	return s->p == s->begin || !is_in_word(s->p[-1]);
}

/* A script, or any text: words separated by blanks, commands by semicolons and the like. */
static void mask_script(struct scan *s)
{
	struct mask m = { 0 };

	while (s->p < s->end) {
		size_t from = 0;

		if (ends_command(*s->p))
			m = (struct mask) { 0 };
		if (is_in_word(*s->p) && begins_word(s)) {
			const char *end = skip(s->p, s->end, is_in_word);
			enum treatment how = see_word(&m, s->p, (size_t) (end - s->p), &from);

			if (end - s->p == 2 && end < s->end && is_quote(*end) && has_attached(&m, s->p))
				how = ATTACHED;
			if (how != SHOWN) {
				mask_word(s, how, from, end, m.tool ? m.tool->between : ':');
				continue;
			}
		}
		if (is_name(*s->p))
			mask_name(s);
		else if (!mask_userinfo(s))
			put(s, *s->p++);
	}
}

/* An argument of one word. */
static void mask_plain(struct scan *s)
{
	while (s->p < s->end) {
		if (is_name(*s->p))
			mask_name(s);
		else if (!mask_userinfo(s))
			put(s, *s->p++);
	}
}

size_t mask_argument(struct mask *m, const char *arg, size_t len, char *ret, size_t size)
{
	struct scan s = { .begin = arg, .p = arg, .end = arg + len, .out = ret, .size = size };
	size_t from = 0;
	const enum treatment how = see_word(m, arg, len, &from);

	if (how == SHOWN && skip(arg, s.end, is_in_word) < s.end)
		mask_script(&s);
	else if (how == SHOWN)
		mask_plain(&s);
	else
		mask_word(&s, how, from, s.end, m->tool ? m->tool->between : ':');
	if (size > 0)
		ret[s.n] = '\0';
	return s.n;
}

size_t mask_text(const char *text, char *ret, size_t size)
{
	struct scan s = { .begin = text,
		.p = text,
		.end = text + strlen(text),
		.out = ret,
		.size = size,
		.keeps_control = true };

	mask_script(&s);
	if (size > 0)
		ret[s.n] = '\0';
	return s.n;
}

size_t mask_command(const char *block, size_t len, char *ret, size_t size)
{
	struct mask m = { 0 };
	const char *p = block, *end = block + len;
	size_t n = 0;

	/* Programs that overwrite their arguments leave NULs after them. */
	while (end > p && end[-1] == '\0')
		end--;
	if (size > 0)
		ret[0] = '\0';
	while (p < end && n + 1 < size) {
		size_t l = strnlen(p, (size_t) (end - p));

		if (p > block)
			ret[n++] = ' ';
		n += mask_argument(&m, p, l, ret + n, size - n);
		p += l + 1;
	}
	return n;
}
