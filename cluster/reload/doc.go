// Package reload keeps values that are read from files, such as certificates and keys, up to date while the process
// runs.
//
//	Value      a value of one or more files: it changes as a whole or not at all
//	Loop       looks at files every two seconds, and at once when it is told to
//	Fan        tells several readers of files to look at once
//	Reminder   decides when an operator hears of a certificate that ends
//
// Rules:
//
//   - New contents count once two looks in a row find the same, so a copy under way is not judged.
//   - Faulty contents change nothing: the earlier value stays in use.
//
// # Why not otherwise
//
// Not fsnotify: it reports nothing on some network file systems, loses the folders that Kubernetes exchanges by
// symbolic links, and may drop events, so that a poll is needed beside it. A few small files every two seconds cost
// nothing. Not modification times: rsync -t and cp -p set them back. Not cloudflare/certinel or the watchers of
// step-ca: they hold a certificate, but neither authorities nor other keys, and they take a file as it is, without a
// look at the names, the authority or the validity.
package reload
