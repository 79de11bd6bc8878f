// Package recipes tests the recipes of docs/recipes.md as a reader uses them: each is copied from
// the document into a new module, and vetted and run there. A program for many processes runs in three
// of them, and a service is asked what the document asks it with curl. The code of each stands in the
// folder of its name, beside its test, where it is the same to the letter; package readme compares them.
// A test that starts servers with this repository's test aids, such as that of payments, runs there alone.
// The recipes are in this module, so that users of the locks do not have the recipes' libraries as their
// dependencies.
package recipes
