// Decides where every name of a template lives.
//
// Jinja2 compiles a template to a Python function and settles scopes from the text alone: whether a name in a
// loop means the loop's own variable, one further out, or a variable of the rendering depends on which names
// the surrounding scopes mention, not on what has run. This reproduces those rules.
//
// A function (the template, a macro, the body of a recursive loop, a block) has numbered slots. A scope (a
// function's, or that of a loop, `with`, `set` block or filter block) gives names to slots; when it is
// entered, each of its variables is cleared, copied from an outer variable, or looked up by name.
#pragma once

#include "lamina/status.h"
#include "text/jinja/ast.h"

namespace lamina::jinja {

// Fills in the resolved fields of the tree. INVALID_MODEL where the template names a filter or test that does
// not exist; inside `if` that is an error only when it runs.
Status ResolveNames(ParsedTemplate& parsed);

}  // namespace lamina::jinja
