// Package apitest calls an HTTP interface at random, along its OpenAPI document: every operation, with requests that
// keep to the document, and with requests that were spoiled in one or two places. Each answer is held against the
// document, whatever the request was.
//
// The document alone says what is drawn, so that a route or a field that is added to it is tested without a line of
// code. Where a schema says less than the contract (an instant is only a string to it), the field's name decides what
// is mostly drawn.
//
// What it finds: answers that nobody documented, a 500, a 4xx without a problem, a refusal that names no field, a
// panic. What it leaves to its caller: whether anything was done that should not have been, and the server itself,
// which may be a handler in the test or a cluster of real nodes.
package apitest
