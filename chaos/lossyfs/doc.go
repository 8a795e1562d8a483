// Package lossyfs is a file system that loses unsynced writes at a simulated loss of power. A seed decides which of
// them survive. The file system can also fail, slow down, hang and fill up. It needs Linux, root and /dev/fuse.
//
//	write            visible to all processes at once; lost, kept or torn at PowerLoss
//	fsync            makes bytes, sizes and names durable
//	PowerLoss        durable state stays; each unsynced page, size and name is drawn by the seed
//	FailSync, ...    switches: failing, slow or hanging syncs, failing writes, a full disk
//
// Killing a process loses none of its writes, because the kernel has them. A service that forgets an fsync therefore
// passes every test that only kills processes. And a real machine cannot be made to lose its power a thousand times a
// night.
//
// # What survives
//
// Processes see every write at once: the write goes to a file of a backing folder. Beside that file lossyfs keeps the
// durable state: the content of each page of 4 KiB at the last sync, the file's size then, and a journal of the names
// that have changed since.
//
//   - An fsync or fdatasync of a file, through any descriptor, makes its bytes and its size durable, and the steps that
//     gave the file its name.
//   - An fsync of a folder makes the names in it durable: creations, renames (whole, also between folders) and
//     removals.
//   - A power loss never changes durable state. Only a newer write to the same page does.
//   - An unsynced page has got to the disk or not, or is torn: some of its sectors of 512 bytes are new and some are
//     old. A page that was written several times may have one of the states between. Sectors are never torn.
//   - A file that has grown has its old length, its new length, or the length of some of its pages.
//   - A file that was cut is cut, or is as before, with all the bytes behind the cut.
//   - Each unsynced step of names has happened or not, but no step happens without the steps that it rests on.
//   - An fsync that failed leaves its pages marked as written, as on Linux: they can still be read, no later fsync
//     tries them again, and a power loss drops them. Only writing them again helps.
//
// These rules are stricter than ext4, whose journal commits all steps in their order with the next fsync of any file.
// They are not as strict as POSIX, which promises no name without an fsync of its folder; no journaling file system is
// that strict.
//
// # How the file system is mounted
//
// The process that mounts a disk also serves it. That process must not map a file of the disk into memory: a page fault
// is no system call, and a thread in a page fault cannot stop for the garbage collector, for which the server's threads
// may be waiting. The process may open, read and list files. A program that maps files, as bbolt does, runs as a
// process of its own.
//
// Package lossyfs opens the device close-on-exec and mounts it without the help of go-fuse, which leaves the device
// open for child processes. A child stuck in an unanswered call would keep the dead mount, and itself, alive for ever.
//
//   - When the process is killed, the kernel ends the connection and calls fail. The next Mount on the machine sweeps
//     the mountpoint away.
//   - PowerLoss ends the connection in the same way, also if other mount namespaces hold a copy of the mount. It then
//     mounts anew, so that nothing comes back from the kernel's cache.
//
// No fsync reaches the real disk, since only processes die here. Two cores with other work make 15 800 writes of 4 KiB
// a second, each followed by fdatasync. A cluster of three nodes on that machine took 3000 to 3400 schedules a second
// from 64 callers with these disks, and 2600 to 3600 without.
//
// # What other packages do
//
// Package faults decides when to strike, and check decides which invariants must hold then. Hard and symbolic links,
// devices, extended attributes and writing through shared mappings are refused or not supported, because no node uses
// them. Times and permissions cannot be lost.
//
// # Why not otherwise
//
//   - Not LazyFS, the FUSE file system with which other projects simulate a loss of power. A fault of LazyFS drops the
//     whole cache, or cuts a write that the configuration counts out. Here a seed draws for each page and sector
//     whether it survives, which finds code that rests on the order of two writes. LazyFS passes changes of names
//     straight on, so that a missing fsync of a folder shows nowhere. It neither slows down nor hangs nor runs full. It
//     is C++ on libfuse, which every machine would have to build; lossyfs is a Go package, which tests use like any
//     other.
//   - Not a block device under a real file system (dm-log-writes, dm-flakey): it would test one file system's reading
//     of the rules instead of the rules, and many kernels lack those targets.
//   - Not an LD_PRELOAD: a Go binary calls the kernel directly.
//   - Not a virtual machine per node: a power loss would take seconds.
package lossyfs
