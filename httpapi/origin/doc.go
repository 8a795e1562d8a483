// Package origin keeps web pages away from an HTTP interface that asks for no credentials.
//
// A browser sends requests for any page that it shows: to a loopback address as well, without asking, and for simple
// requests (an image, a form, a POST without a body) without a preflight. A page may also give its own host name the
// address of a node (DNS rebinding); the browser then takes the node for the page's own server. The package tells such
// requests from those of programs by the headers that a page cannot change:
//
//   - Host must be localhost, an IP literal, or a name that the operator gave. A page that rebinds its name sends that
//     name. An IP literal cannot be rebound.
//   - Origin, if there is one, must be the node's own (the scheme that the call came by, and the request's Host), or
//     one that the operator gave. "null" is foreign.
//   - Sec-Fetch-Site, if there is one, must be same-origin or none. Browsers send it where they send no Origin, as for
//     an image. A page whose Origin is allowed is excepted, since it is cross-site by nature, and so is a navigation
//     to the dashboard, which only shows it.
//
// Health checks (/healthz and /readyz) pass with any Host, since load balancers often send one of their own; they
// change nothing and show no more than the ids of the cluster and the node.
//
// A Policy also answers CORS for the origins that the operator gave: without credentials, and never with a wildcard.
package origin
