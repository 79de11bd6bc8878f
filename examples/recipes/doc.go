// Package recipes tests the recipes of docs/recipes.md as a reader uses them: each is copied from
// the document into a module of its own, tested there, and run if it is a program for many
// processes. The code of each stands in the folder of its name, where it is the same to the letter;
// package readme compares them. They are in this module, so that users of the locks do not have the
// recipes' libraries as their dependencies.
package recipes
