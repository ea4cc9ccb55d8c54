/* SPDX-License-Identifier: MIT
 *
 * Who a key goes to: a page or a question that is open, else the table of keys.
 */
#include "top/keys.h"

#include <stdio.h>

static const struct binding {
	int keys[8]; /* ends with a 0 where it is shorter */
	key_action *act;
} bindings[] = {
#define KEY(name, shown, sentence, ...) { { __VA_ARGS__ }, key_##name },
#include "top/keys.def"
#undef KEY
};

const char *const *key_texts(void)
{
	static const char *const texts[] = {
#define KEY(name, shown, sentence, ...) shown, sentence,
#include "top/keys.def"
#undef KEY
		NULL,
	};

	return texts;
}

void key_say(struct top *t, const char *text)
{
	(void) snprintf(t->view.message, sizeof(t->view.message), "%s", text);
}

static key_action *action_of(int key)
{
	for (size_t i = 0; i < sizeof(bindings) / sizeof(bindings[0]); i++) {
		for (size_t k = 0; k < 8 && bindings[i].keys[k]; k++) {
			if (bindings[i].keys[k] == key)
				return bindings[i].act;
		}
	}
	return NULL;
}

/* Keys that move scroll a page that does not fit; any other leaves it. */
static void help_key(struct view *v, const struct picture *p, int key)
{
	if (p->help_rest == 0 && v->help_top == 0)
		v->help = false;
	else if (key == PRESS_ARROW_UP || key == 'k' || key == PRESS_WHEEL_UP)
		v->help_top -= v->help_top > 0;
	else if (key == PRESS_ARROW_DOWN || key == 'j' || key == PRESS_WHEEL_DOWN)
		v->help_top += p->help_rest > 0;
	else if (key == PRESS_PAGE_UP)
		v->help_top = v->help_top > p->help_page ? v->help_top - p->help_page : 0;
	else if (key == PRESS_PAGE_DOWN)
		v->help_top += p->help_rest < p->help_page ? p->help_rest : p->help_page;
	else
		v->help = false;
}

static bool is_mouse(int key)
{
	return key >= PRESS_CLICK && key <= PRESS_WHEEL_DOWN;
}

void top_key(struct top *t, struct press press)
{
	key_action *act = action_of(press.key);

	t->redraw = true;
	t->view.message[0] = '\0';
	if (t->view.setup)
		setup_key(t, press);
	else if (t->view.help)
		help_key(&t->view, &t->picture, press.key);
	else if (is_mouse(press.key) && t->view.asking == ASK_NOTHING) /* what a question is about stays */
		top_mouse(t, press);
	else if (is_mouse(press.key))
		return;
	else if (t->view.asking != ASK_NOTHING)
		question_key(t, press.key);
	else if (act)
		act(t, press.key);
}
