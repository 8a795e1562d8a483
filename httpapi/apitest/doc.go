// Package apitest calls an HTTP interface at random, along its OpenAPI document.
//
//	Load    reads the document
//	Draw    draws a request of any operation, and spoils some in one or two places
//	Check   compares an answer with the document, whatever the request was
//
// The division of work:
//
//   - The document alone decides on the drawn requests, so that a new route or field is tested without new code.
//   - Where a schema is weaker than the contract (an instant is only a string in it), the field's name decides on most
//     of the drawn values.
//   - Check finds undocumented answers, a 500, a 4xx without a problem, and a refusal that names no field.
//   - The caller provides the server, which may be a handler in the test or a cluster of real nodes, and checks that
//     refused calls had no effect. A server's panic shows at the caller.
package apitest
