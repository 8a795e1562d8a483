// Package origin keeps web pages away from an HTTP interface that asks for no credentials.
//
//	Host             localhost, an IP literal, or a name that the operator gave
//	Origin           absent, the node's own, or one that the operator gave
//	Sec-Fetch-Site   absent, same-origin or none
//
// A browser sends requests for any page that it shows: even to a loopback address, without asking, and for simple
// requests (an image, a form, a POST without a body) without a preflight. A page may also give its own host name the
// address of a node (DNS rebinding); the browser then takes the node for the page's own server. The package
// distinguishes such requests from those of programs by the headers that a page cannot change:
//
//   - A page that rebinds its name sends that name as Host. An IP literal cannot be rebound.
//   - The node's own Origin has the scheme that the call came by, and the request's Host. "null" is foreign.
//   - Browsers send Sec-Fetch-Site where they send no Origin, as for an image. A page with an allowed Origin is
//     excepted, since it is cross-site by nature. So is a navigation to the dashboard, which only shows it.
//   - Health checks (/healthz and /readyz) pass with any Host, since load balancers often send one of their own. They
//     change nothing and show no more than the ids of the cluster and the node.
//
// A Policy also answers CORS for the origins that the operator gave: without credentials, and never with a wildcard.
package origin
