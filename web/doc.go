// Package web is the dashboard: a page for browsers, embedded in the binary and served below /ui/.
//
//	src/         the sources: ES modules with Preact and htm, and style sheets
//	build.mjs    bundles them into dist, with the same bytes each time
//	dist/        the embedded files; committed, so that a build of Belfry needs only Go
//	test/        tests of the modules, and of the page in a real browser against a real cluster
//
// The page makes calls of the public API only, with the viewer's key, and none to other servers. It has no rights of
// its own: the node serves the same bytes to every caller.
//
// All addresses below /ui/ that name no file get the page, which reads the address itself. So an address such as
// /ui/tasks/order-1042 can be sent to a colleague.
package web
