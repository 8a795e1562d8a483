// Package confirm asks the user before a change that cannot be undone. The question names the counted effect, and the
// answer is the name of the thing or yes, so that no habit answers it.
//
// Without a terminal no user can answer: a script passes --yes.
package confirm
